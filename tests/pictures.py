"""Makes the pictures of pages in docs/images with the browser of the tests.

python tests/pictures.py [NAME ..]
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from browser import chromium
from command_line import PROGRAM
from PIL import Image

if TYPE_CHECKING:
    from playwright.sync_api import Page, ViewportSize

REPOSITORY = Path(__file__).parent.parent
IMAGES = REPOSITORY / "docs" / "images"
EXAMPLES = REPOSITORY / "examples"
#: The width of a page on pictures, and of a recording, in pixels.
PAGE_PX, RECORDED_PX = 1000, 880
#: The window of a live page, which is wide enough for the charts beside the network.
LIVE_WINDOW: ViewportSize = {"width": 1180, "height": 860}
#: The least time between two frames of a recording.
FRAME_S = 0.1
QUALITY = 70

#: What happens in a recording: at a time after its start, in seconds.
Scene = tuple[float, Callable[["Page"], object]]


@contextmanager
def live_page(spec: Path, folder: Path, *options: str) -> Iterator[Page]:
    """Starts a live run and yields its page. Ends the program if it has not ended by itself."""
    command = [str(PROGRAM), "run", str(spec), "--live", "--port", "0", *options]
    program = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert program.stderr is not None
        address = re.fullmatch(r"live: (http://\S+)\n", program.stderr.readline())
        assert address is not None
        with chromium() as browser:
            page = browser.new_page(viewport=LIVE_WINDOW)
            page.goto(address[1])
            yield page
    finally:
        program.send_signal(signal.SIGINT)
        program.communicate(timeout=60)


def record(page: Page, seconds: float, scenes: Sequence[Scene], file: Path) -> None:
    """Writes what a page shows in some seconds as an animated WebP. Each frame lasts as long as it
    was shown, so a busy machine has fewer frames and not a slower recording.
    """
    seen: list[tuple[float, str]] = []
    session = page.context.new_cdp_session(page)

    def take(frame: dict[str, Any]) -> None:
        seen.append((time.monotonic(), frame["data"]))
        session.send("Page.screencastFrameAck", {"sessionId": frame["sessionId"]})

    session.on("Page.screencastFrame", take)
    session.send("Page.startScreencast", {"format": "jpeg", "quality": 95})
    start = time.monotonic()
    for at_s, act in [*scenes, (seconds, lambda _: None)]:
        page.wait_for_timeout(max(0.0, 1000 * (at_s - (time.monotonic() - start))))
        act(page)
    session.send("Page.stopScreencast")
    _write(seen, start + seconds, file)


def _write(seen: Sequence[tuple[float, str]], end: float, file: Path) -> None:
    """Writes frames with their times, of which those that follow another too soon are left out."""
    kept: list[tuple[float, str]] = []
    for at, data in seen:
        if not kept or at - kept[-1][0] >= FRAME_S:
            kept.append((at, data))
    until = [at for at, _ in kept[1:]] + [end]
    lengths_ms = [round(1000 * (then - at)) for (at, _), then in zip(kept, until, strict=True)]
    first, *others = (_smaller(b64decode(data)) for _, data in kept)
    options: dict[str, Any] = {"duration": lengths_ms, "loop": 0, "quality": QUALITY, "method": 4}
    first.save(file, save_all=True, append_images=others, **options)


def _smaller(frame: bytes) -> Image.Image:
    image = Image.open(BytesIO(frame)).convert("RGB")
    height = round(image.height * RECORDED_PX / image.width)
    return image.resize((RECORDED_PX, height), Image.Resampling.LANCZOS)


def live_run(file: Path, folder: Path) -> None:
    """Records a download over two paths whose Wi-Fi goes and returns, and whose LTE is cut by
    hand.
    """
    scenes: list[Scene] = [
        (10.5, lambda page: _press(page, "lte", "Cut")),
        (12.5, lambda page: _press(page, "lte", "Restore")),
        (17.0, lambda page: page.locator("#ended").scroll_into_view_if_needed()),
    ]
    with live_page(EXAMPLES / "two-paths-mptcp.yaml", folder) as page:
        record(page, 20, scenes, file)


def live_page_after_a_cut(file: Path, folder: Path) -> None:
    """Takes the picture of the same page after LTE was cut by hand."""
    with live_page(EXAMPLES / "two-paths-mptcp.yaml", folder) as page:
        page.wait_for_timeout(11_000)
        _press(page, "lte", "Cut")
        page.wait_for_timeout(1000)
        picture = Image.open(BytesIO(page.screenshot()))
    picture.quantize(256).save(file, optimize=True)


def _press(page: Page, link: str, button: str) -> None:
    """Chooses a link in the picture of the network, and presses a button for it."""
    page.get_by_role("button", name=f"Link {link}", exact=True).press("Enter")
    page.locator("#hands").get_by_role("button", name=f"{button} {link}", exact=True).click()


def capture_page(file: Path, folder: Path) -> None:
    """Takes the picture of the page of a capture, made by the example whose links are cut."""
    spec = EXAMPLES / "captured-outage.yaml"
    subprocess.run([PROGRAM, "run", spec, "--quiet"], cwd=folder, check=True)
    captures = sorted(folder.glob("results/captured-outage/*/captures/*.pcapng"))
    command = [PROGRAM, "pcap", captures[0], "--interface", captures[1], "--report", folder / "capture.html"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    with chromium() as browser:
        page = browser.new_page(viewport={"width": PAGE_PX, "height": 800})
        page.goto((folder / "capture.html").as_uri())
        page.locator("canvas").first.wait_for()
        last = page.locator("figure", has=page.locator("canvas")).last.bounding_box()
        assert last is not None
        clip = {"x": 0, "y": 0, "width": PAGE_PX, "height": last["y"] + last["height"] + 10}
        picture = Image.open(BytesIO(page.screenshot(full_page=True, clip=clip)))
    picture.quantize(64).save(file, optimize=True)


PICTURES = {"capture-page.png": capture_page, "live-page.png": live_page_after_a_cut, "live-run.webp": live_run}


def main(names: Sequence[str]) -> None:
    """Makes these pictures, or all. Raises KeyError for another name."""
    for name in names or PICTURES:
        with TemporaryDirectory(prefix="pictures-") as folder:
            PICTURES[name](IMAGES / name, Path(folder))
        print(f"wrote {IMAGES / name}")


if __name__ == "__main__":
    main(sys.argv[1:])
