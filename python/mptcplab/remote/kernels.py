"""Kernels for guests: Debian's by series, or any image by its path, with the modules that a guest
loads.
"""

from __future__ import annotations

import gzip
import lzma
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from mptcplab.errors import MachineError, UsageError
from mptcplab.notices import notice

SUITES = ("bookworm", "bookworm-backports", "trixie", "trixie-backports", "sid")
#: The flavour of Debian's kernels that is small and has all that experiments need.
FLAVOUR = "cloud-amd64"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
#: Since Linux 6.19 an image is in several packages.
PARTS = ("image", "binary", "modules")
#: The names of an image that was downloaded, and of the list of modules that were looked for.
IMAGE, LOOKED_FOR = "vmlinuz", "modules"
#: Lists of packages are fetched again after this time.
LISTS_AGE_S = 86_400
#: Time limits in seconds for apt: lists, and a kernel.
LISTS_S, DOWNLOAD_S = 300, 600
#: The interval of the notices about a download, in seconds.
NOTICE_S = 5.0

#: Modules that guests, experiments and telemetry use. A kernel may have them built in, or not at
#: all.
MODULES = (
    "virtio_pci",
    "virtio_console",
    "virtio_net",
    "tun",
    "veth",
    "sch_tbf",
    "sch_fq",
    "sch_fq_codel",
    "sch_netem",
    "tcp_bbr",
    "inet_diag",
    "tcp_diag",
    "udp_diag",
    "mptcp_diag",
)
#: The place of the header fields of a bzImage (Documentation/arch/x86/boot.rst).
_MAGIC, _MAGIC_AT, _VERSION_AT, _VERSION_BASE = b"HdrS", 0x202, 0x20E, 0x200


@dataclass(frozen=True)
class Kernel:
    """An image, its release, and the uncompressed modules that a guest loads, in order."""

    image: Path
    release: str
    modules: tuple[Path, ...]


def cache_directory() -> Path:
    """Returns the directory for kernels that were downloaded."""
    above = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (above if above.is_absolute() else Path.home() / ".cache") / "mptcplab" / "kernels"


def check_form(where: str, wanted: str) -> None:
    """Raises UsageError unless `qemu:WANTED` names a path or a series. `where` begins the message."""
    if not is_path(wanted) and not re.fullmatch(r"\d+\.\d+", wanted):
        raise UsageError(f"{where}: unknown kernel {wanted!r}; allowed: a series as in 6.12, or PATH/bzImage")


def kernel_of(where: str, wanted: str) -> Kernel:
    """Returns the kernel that `qemu:WANTED` names: a path, or a series. `where` begins messages. Raises
    MachineError.
    """
    with files_of(where, str(cache_directory()), "XDG_CACHE_HOME"):
        if not is_path(wanted):
            return _of_debian(where, wanted)
        image = Path(wanted).expanduser()
        release = _release_of(where, image)
        return Kernel(image, release, _modules(Path("/lib/modules", release)))


def is_path(wanted: str) -> bool:
    """Returns whether `qemu:WANTED` names a path, and not a series."""
    return "/" in wanted


@contextmanager
def files_of(where: str, directory: str, variable: str) -> Iterator[None]:
    """Converts errors of files to MachineError. `directory` is named if an error names no file, as
    that of a full disk; `variable` names another directory.
    """
    try:
        yield
    except OSError as error:
        remedy = f"{variable} names another directory"
        raise MachineError(f"{where}: {error.filename or directory}: {error.strerror or error}; {remedy}") from None


def _release_of(where: str, image: Path) -> str:
    try:
        head = image.open("rb").read(1 << 16)
    except OSError as error:
        raise MachineError(f"{where}: {image}: {error.strerror}") from None
    if head[_MAGIC_AT : _MAGIC_AT + 4] != _MAGIC:
        raise MachineError(f"{where}: {image}: not a bzImage for x86_64")
    at = int.from_bytes(head[_VERSION_AT : _VERSION_AT + 2], "little") + _VERSION_BASE
    return head[at:].split(b"\0")[0].decode(errors="replace").split(" ")[0]


def _of_debian(where: str, series: str) -> Kernel:
    """Returns the newest kernel of a series that was downloaded before, else the newest that Debian
    has.
    """
    kept = [path for path in cache_directory().glob(f"{series}.*-{FLAVOUR}") if _is_complete(path)]
    directory = max(kept, key=lambda path: _version(path.name)) if kept else _downloaded(where, series)
    return Kernel(directory / IMAGE, directory.name, _modules(directory))


def _is_complete(directory: Path) -> bool:
    """Returns whether a kernel was downloaded with all modules of today."""
    listed = directory / LOOKED_FOR
    return listed.is_file() and listed.read_text().split() == list(MODULES)


def _downloaded(where: str, series: str) -> Path:
    """Downloads the newest kernel of a series, and returns its directory."""
    apt = _Apt(where)
    newest = apt.newest()
    if series not in newest:
        raise MachineError(f"{where}: Debian has no Linux {series} now; it has {', '.join(newest) or 'none'}")
    release = newest[series]
    directory = cache_directory() / release
    with tempfile.TemporaryDirectory(dir=cache_directory()) as made:
        unpacked, kept = Path(made, "all"), Path(made, release)
        apt.unpack(release, unpacked)
        kept.mkdir()
        image = next(unpacked.rglob("vmlinuz*"), None)
        if image is None:
            raise MachineError(f"{where}: the packages of Linux {release} have no image")
        shutil.copyfile(image, kept / IMAGE)
        for module in _modules(unpacked):
            (kept / plain_name(module)).write_bytes(plain(module))
        (kept / LOOKED_FOR).write_text(" ".join(MODULES))
        if not _is_complete(directory):
            shutil.rmtree(directory, ignore_errors=True)
        # Another process may have been faster.
        with suppress(OSError):
            kept.replace(directory)
    return directory


def series_of_debian(where: str) -> list[str]:
    """Returns the series that Debian has now. Raises MachineError."""
    with files_of(where, str(cache_directory()), "XDG_CACHE_HOME"):
        return list(_Apt(where).newest())


class _Apt:
    """An apt of our own, so the machine's sources stay as they are."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._directory = cache_directory() / "apt"
        mirror = self._mirror()
        for name in ("lists/partial", "cache/archives/partial"):
            (self._directory / name).mkdir(parents=True, exist_ok=True)
        sources = "".join(f"deb [signed-by={KEYRING}] {mirror} {suite} main\n" for suite in SUITES)
        (self._directory / "sources.list").write_text(sources)
        (self._directory / "apt.conf").write_text(
            f'Dir::Etc::sourcelist "{self._directory}/sources.list";\n'
            'Dir::Etc::sourceparts "/dev/null";\n'
            f'Dir::State::lists "{self._directory}/lists";\n'
            'Dir::State::status "/dev/null";\n'
            f'Dir::Cache "{self._directory}/cache";\n'
            'APT::Sandbox::User "root";\n'
        )
        self._update()
        self._packages = set(self._call("apt-cache", "pkgnames", "linux-").split())

    def _mirror(self) -> str:
        wanted = ("Created-By: Packages", "Origin: Debian", "Label: Debian")
        try:
            found = subprocess.run(
                ["apt-get", "indextargets", "--format", "$(REPO_URI)", *wanted], capture_output=True, text=True
            ).stdout.split()
            architecture = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True).stdout
        except OSError:
            found, architecture = [], ""
        if not found or architecture.strip() != "amd64":
            remedy = "on other machines name the image: qemu:PATH/bzImage"
            raise MachineError(f"{self._where}: kernels by series come from Debian, on Debian for amd64; {remedy}")
        return found[0]

    def _update(self) -> None:
        stamp = self._directory / "updated"
        if not stamp.exists() or stamp.stat().st_mtime + LISTS_AGE_S < time.time():
            notice("asking Debian which kernels it has")
            self._call("apt-get", "update", "-qq", timeout_s=LISTS_S)
            stamp.touch()

    def newest(self) -> dict[str, str]:
        """Returns the newest release of each series of which the mirrors have all packages, in
        order.
        """
        form = re.compile(rf"linux-image-((\d+\.\d+)\..*)-{FLAVOUR}")
        known: dict[str, list[str]] = {}
        for package in self._packages:
            found = form.fullmatch(package)
            if found and self._is_whole(found[1]):
                known.setdefault(found[2], []).append(found[1])
        return {series: f"{max(known[series], key=_version)}-{FLAVOUR}" for series in sorted(known, key=_version)}

    def _is_whole(self, kernel: str) -> bool:
        has_binary = f"linux-binary-{kernel}-{FLAVOUR}" in self._packages
        return not has_binary or f"linux-modules-{kernel}-{FLAVOUR}" in self._packages

    def unpack(self, release: str, directory: Path) -> None:
        packages = [f"linux-{part}-{release}" for part in PARTS if f"linux-{part}-{release}" in self._packages]
        archives = directory.with_name("archives")
        archives.mkdir()
        sizes = re.findall(
            r"^Size: (\d+)$", self._call("apt-cache", "show", "--no-all-versions", *packages), re.MULTILINE
        )
        with _notices(f"downloading Linux {release}", archives, sum(map(int, sizes))):
            self._call("apt-get", "download", "-qq", *packages, timeout_s=DOWNLOAD_S, directory=archives)
        for archive in archives.glob("*.deb"):
            self._call("dpkg-deb", "-x", str(archive), str(directory))

    def _call(self, *argv: str, timeout_s: float = 60, directory: Path | None = None) -> str:
        env = os.environ | {"APT_CONFIG": str(self._directory / "apt.conf")}
        try:
            done = subprocess.run(argv, env=env, cwd=directory, capture_output=True, text=True, timeout=timeout_s)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MachineError(f"{self._where}: {argv[0]}: {error}") from None
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
            raise MachineError(f"{self._where}: {argv[0]} {argv[1]}: {said[-1]}")
        return done.stdout


@contextmanager
def _notices(doing: str, directory: Path, total_bytes: int) -> Iterator[None]:
    """Tells how much of a download has arrived in a directory, again and again until it ends."""
    has_ended = Event()

    def tell() -> None:
        while True:
            # A file may be renamed meanwhile.
            with suppress(OSError):
                arrived = sum(path.stat().st_size for path in directory.iterdir())
                notice(f"{doing}: {arrived / 1e6:.0f} of {total_bytes / 1e6:.0f} MB")
            if has_ended.wait(NOTICE_S):
                return

    teller = Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        has_ended.set()
        teller.join()


def _version(text: str) -> list[tuple[int, int | str]]:
    """Returns a key that orders versions by their numbers."""
    return [(1, int(part)) if part.isdigit() else (0, part) for part in re.findall(r"\d+|\D+", text)]


def _modules(directory: Path) -> tuple[Path, ...]:
    """Returns the modules to load, each after those that it needs."""
    found = {module.name.partition(".")[0].replace("-", "_"): module for module in directory.rglob("*.ko*")}
    ordered: dict[str, Path] = {}

    def add(name: str) -> None:
        module = found.get(name)
        if module is not None and name not in ordered:
            for needed in _needs(module):
                add(needed)
            ordered[name] = module

    for name in MODULES:
        add(name)
    return tuple(ordered.values())


def plain_name(module: Path) -> str:
    """Returns the name of a module without that of its compression."""
    return re.sub(r"\.(xz|gz|zst)$", "", module.name)


def plain(module: Path) -> bytes:
    """Returns the content of a module, uncompressed. Raises MachineError."""
    if module.suffix == ".zst":
        return _without_zstd(module)
    content = module.read_bytes()
    if module.suffix == ".xz":
        return lzma.decompress(content)
    if module.suffix == ".gz":
        return gzip.decompress(content)
    return content


def _without_zstd(module: Path) -> bytes:
    zstd = shutil.which("zstd")
    if zstd is None:
        raise MachineError(f"{module}: zstd is missing, which uncompresses it: sudo apt install zstd")
    done = subprocess.run([zstd, "-dc", str(module)], capture_output=True)
    if done.returncode:
        raise MachineError(f"{module}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def _needs(module: Path) -> list[str]:
    """Returns the modules that a module needs, by its own information (modinfo(8))."""
    found = re.search(rb"\0depends=([^\0]*)\0", b"\0" + plain(module))
    return [name.replace("-", "_") for name in found[1].decode().split(",") if name] if found else []
