"""Commands that people type, and the installation."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import MPTCPLAB, ROOT, RUNS, Figure, cpu_s, wall_s


def startup() -> dict[str, Figure]:
    """How long the two commands take that people type first; the peer is Python starting and doing
    nothing.
    """
    floor = {"unit": "s", "peer": "python -c pass", "peer_value": wall_s(sys.executable, "-c", "pass")}
    return {
        "startup": {"value": wall_s(str(MPTCPLAB), "--help"), "limit": 0.3, **floor},
        "startup-list": {"value": wall_s(str(MPTCPLAB), "list"), "limit": 0.5, **floor},
    }


def commands() -> dict[str, Figure]:
    """CPU time of a run of 60 simulated seconds and of a paper's quick reproduction, from the start
    of the command to its end; the peer is Python importing the libraries that a run needs.
    """
    libraries = "import numpy, pydantic, typer, yaml"
    peer = {"unit": "s", "peer": "the imports", "peer_value": cpu_s(RUNS, sys.executable, "-c", libraries)}
    with tempfile.TemporaryDirectory() as folder:
        results = ("--out", folder, "--fresh")
        run = cpu_s(RUNS, str(MPTCPLAB), "run", str(ROOT / "examples" / "failing-link.yaml"), *results)
        paper = cpu_s(1, str(MPTCPLAB), "reproduce", "alenazi2019", "--on", "sim", "--quick", *results)
    return {"run": {"value": run, "limit": 0.5, **peer}, "reproduce": {"value": paper, "limit": 45, **peer}}


def resolve() -> dict[str, Figure]:
    """Resolving the whole catalogue in a fresh process, imports too; the peer only reads the same
    files as YAML.
    """
    resolve_all = "from mptcplab.catalogue import catalogue\nfor member in catalogue(): member.resolve()"
    read_all = (
        "import yaml, pathlib, mptcplab.catalogue as c\n"
        "for f in c.PAPERS.rglob('*.yaml'): yaml.load(f.read_text(), yaml.CSafeLoader)"
    )
    return {
        "resolve": {
            "value": wall_s(sys.executable, "-c", resolve_all),
            "unit": "s",
            "limit": 2.0,
            "peer": "yaml.load of the files",
            "peer_value": wall_s(sys.executable, "-c", read_all),
        }
    }


def install() -> dict[str, Figure]:
    """Size of the base install in an empty environment."""
    with tempfile.TemporaryDirectory() as folder:
        wheels, environment = Path(folder, "wheels"), Path(folder, "venv")
        maturin = ROOT / ".venv" / "bin" / "maturin"
        subprocess.run([maturin, "build", "--quiet", "--release", "--out", wheels], check=True, cwd=ROOT)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
        wheel = next(wheels.glob("*.whl"))
        pip = [ROOT / ".venv" / "bin" / "pip", "--python", environment / "bin" / "python"]
        subprocess.run([*pip, "install", "--quiet", wheel], check=True)
        size = sum(os.lstat(file).st_size for file in environment.rglob("*") if file.is_file())
        shutil.rmtree(environment)
    return {"install": {"value": size / 1e6, "unit": "MB", "limit": 250, "peer": "the limit we set", "peer_value": 250}}
