"""Tests the fixed-point formulas of the kernel's controls (bpf/formulas.h), compiled for this
machine, by vectors.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import math
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
VECTORS = [
    vector
    for vector in json.loads((HERE / "vectors.json").read_text())["vectors"]
    if vector["id"].split(".")[0] in ("lia", "olia", "balia", "wvegas")
    and vector["variant"] == "formula"
    # The theorem of OLIA about windows of 0 has no increase to compare with a formula.
    and not vector["id"].startswith("olia.eq")
]
ONE = 1 << 28
FRACTION = 1 << 16
#: The factor of all windows. Gains depend only on ratios of windows, so scaled windows keep
#: fractions of packets.
SCALE = 5000
#: The relative tolerance of gains that are not tiny. Vectors of equilibria have their own
#: tolerance.
TOLERANCE = 1e-4

COUNTS = [1, 2, 9, 32, 64]
WINDOWS = [1, 1000, (1 << 20) - 1]
RTTS_US = [1, 100, 20_000, (1 << 23) - 1]


class PathOfFormula(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("window_packets", "rtt_us", "loss_interval_bytes")]


@pytest.fixture(scope="session")
def formulas(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = tmp_path_factory.mktemp("bpf") / "formulas.so"
    command = ["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    subprocess.run([*command, HERE / "bpf_formulas.c", "-o", library], check=True)
    loaded = ctypes.CDLL(str(library))
    for name in ("lia", "olia", "balia", "balia_loss", "ewtcp", "semicoupled", "credit_beyond_of"):
        getattr(loaded, name).restype = ctypes.c_int64
    for name in ("wvegas_queued_of", "wvegas_alpha_of", "exact_window_of"):
        getattr(loaded, name).restype = ctypes.c_uint64
    return loaded


def paths_of(windows: Sequence[float], rtts_s: Sequence[float], intervals: Sequence[float] = ()) -> Any:
    made = [
        PathOfFormula(round(window), round(rtt * 1e6), round(interval))
        for window, rtt, interval in zip(windows, rtts_s, intervals or [0] * len(windows), strict=True)
    ]
    return (PathOfFormula * len(made))(*made)


def gains(formula: Any, paths: Any) -> list[float]:
    """Returns the growth of each window, relative to Reno's increase of 1/w."""
    return [formula(paths, ctypes.c_uint64(len(paths)), ctypes.c_uint64(i)) / ONE for i in range(len(paths))]


def losses(formulas: ctypes.CDLL, paths: Any) -> list[float]:
    """Returns BALIA's decrease of each window after a loss, in packets, for scaled windows."""
    count = ctypes.c_uint64(len(paths))
    return [formulas.balia_loss(paths, count, ctypes.c_uint64(i)) / FRACTION / SCALE for i in range(len(paths))]


def scaled(windows: Sequence[float]) -> list[float]:
    return [window * SCALE for window in windows]


def increases(formulas: ctypes.CDLL, name: str, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
    """Checks vectors of one step: windows, the increase of each, and the decrease after a loss."""
    windows = inputs["w"] if "w" in inputs else [cwnd / inputs["mss"] for cwnd in inputs["cwnd"]]
    rtts = inputs.get("rtt", [0.1] * len(windows))
    paths = paths_of(windows, rtts, inputs.get("l", []))
    found = [gain / window for gain, window in zip(gains(getattr(formulas, name), paths), windows, strict=True)]
    if "inc_bytes" in outputs:
        assert found[inputs["subflow"]] * inputs["bytes_acked"] == pytest.approx(outputs["inc_bytes"], rel=TOLERANCE)
    else:
        # An OLIA window from which others gain grows by a difference of two gains.
        assert found == pytest.approx(outputs["inc"], rel=TOLERANCE, abs=1e-8)
    if "dec" in outputs:
        assert losses(formulas, paths_of(scaled(windows), rtts)) == pytest.approx(outputs["dec"], rel=TOLERANCE)


def balances(
    formulas: ctypes.CDLL, name: str, inputs: dict[str, Any], outputs: dict[str, Any], tolerance: float
) -> None:
    """Checks vectors of equilibria, in which decreases by losses equal increases by
    acknowledgments.
    """
    paths = paths_of(scaled(outputs["w"]), inputs["rtt"])
    lost = losses(formulas, paths) if name == "balia" else None
    for index, gain in enumerate(gains(getattr(formulas, name), paths)):
        window, loss = outputs["w"][index], inputs["p"][index]
        taken = lost[index] if lost else window / 2
        # BALIA's closed form holds for small loss rates.
        given = gain / window * (1 if lost else 1 - loss)
        assert given == pytest.approx(loss * taken, rel=max(tolerance, TOLERANCE))


def wvegas(formulas: ctypes.CDLL, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
    if "diff" in outputs:
        path = paths_of([inputs["cwnd"]], [inputs["rtt"]])
        queued = formulas.wvegas_queued_of(path, ctypes.c_uint64(round(inputs["base_rtt"] * 1e6)))
        assert queued / FRACTION == pytest.approx(outputs["diff"], rel=TOLERANCE)
        return
    paths = paths_of(inputs["rate"], [1.0] * len(inputs["rate"]))
    count = ctypes.c_uint64(len(paths))
    found = [formulas.wvegas_alpha_of(ctypes.byref(path), paths, count) / FRACTION for path in paths]
    assert found == pytest.approx(outputs["alpha_real"], rel=TOLERANCE)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_formulas_give_what_the_vectors_say(formulas: ctypes.CDLL, vector: dict[str, Any]) -> None:
    name, kind = vector["id"].split(".")[:2]
    inputs, outputs = vector["inputs"], vector["outputs"]
    if name == "wvegas":
        wvegas(formulas, inputs, outputs)
    elif kind.startswith("eq"):
        balances(formulas, name, inputs, outputs, 10 * vector["rel_tolerance"])
    else:
        increases(formulas, name, inputs, outputs)


@pytest.mark.parametrize("name", ["lia", "balia", "ewtcp", "semicoupled"])
def test_gains_lie_between_none_and_renos_up_to_the_ends_of_what_is_allowed(formulas: ctypes.CDLL, name: str) -> None:
    for count, window, longest_us in itertools.product(COUNTS, WINDOWS, RTTS_US):
        paths = paths_of([window] * count, [(1 if i % 2 else longest_us) / 1e6 for i in range(count)])
        found = gains(getattr(formulas, name), paths)
        assert all(0 <= gain <= 1 for gain in found), (count, window, longest_us)
        assert count > 1 or found == [1.0]


def test_what_olia_moves_from_a_window_it_gives_to_another(formulas: ctypes.CDLL) -> None:
    paths = paths_of([20, 10, 10], [0.1] * 3, [100, 400, 300])
    moved = [gain - (window / 40) ** 2 for gain, window in zip(gains(formulas.olia, paths), [20, 10, 10], strict=True)]
    assert moved[0] < 0 < moved[1]
    assert math.isclose(sum(moved), 0, abs_tol=1e-6)


def test_weights_of_those_that_look_at_nothing_but_windows(formulas: ctypes.CDLL) -> None:
    paths = paths_of([30, 10], [0.1, 0.2])
    assert gains(formulas.ewtcp, paths) == [0.25, 0.25]
    assert gains(formulas.semicoupled, paths) == [0.75, 0.25]


@pytest.mark.parametrize(("packets", "saved"), [(1, 0.0), (3, 0.5), (3, -0.5), (1000, 0.9), ((1 << 20) - 1, -0.25)])
def test_a_loss_halves_what_is_saved_up_too(formulas: ctypes.CDLL, packets: int, saved: float) -> None:
    window = formulas.exact_window_of(ctypes.c_uint64(packets), ctypes.c_int64(round(saved * packets * ONE)))
    assert window / FRACTION == pytest.approx(packets + saved, abs=2 / FRACTION)
    left = window // 2
    whole = max(left // FRACTION, 1)
    credit = formulas.credit_beyond_of(ctypes.c_uint64(whole), ctypes.c_uint64(left))
    assert whole + credit / (whole * ONE) == pytest.approx(max((packets + saved) / 2, 1), abs=2 / FRACTION)
