"""Names of metrics and of values of a description, as axes say them."""

from __future__ import annotations

#: Metrics whose names are abbreviations.
SPELLED = {"fct": "flow completion time", "rto": "retransmission timeouts", "srtt": "smoothed RTT"}
#: Units that names of metrics end with. Axes have them in brackets.
SUFFIXES = ("_bps", "_bytes", "_packets", "_s")


def metric_in_words(metric: str) -> str:
    """``Goodput of bulk`` for ``flows.bulk.goodput_bps``; of the run, ``Goodput``."""
    entity, _, name = metric.rpartition(".")
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    words = SPELLED.get(name, name.replace("_", " "))
    return _of(words, entity)


def key_in_words(key: str) -> str:
    """``Loss of wifi`` for ``links.wifi.loss``."""
    entity, _, name = key.rpartition(".")
    return _of(name.replace("_", " "), entity)


def _of(words: str, path: str) -> str:
    kind, _, entity = path.partition(".")
    whose = f" of {entity}" if entity else f" of {kind}" if kind not in ("", "run") else ""
    # A single letter is a symbol, as in a formula.
    return f"{words if len(words) == 1 else words[:1].upper() + words[1:]}{whose}"
