"""Rankings: the values of combinations of a paper's choices under its failures, best first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from mptcplab.reproduction.arms import Arm
from mptcplab.reproduction.claims import Ranking
from mptcplab.reproduction.notation import Measure
from mptcplab.reproduction.observation import Observation
from mptcplab.reproduction.outcome import Observations
from mptcplab.reproduction.quantities import measured
from mptcplab.reproduction.study import variant_of
from mptcplab.results import Absent, Spread


@dataclass(frozen=True)
class Ranked:
    """A combination in the words of its factors, with its value in each experiment and their mean,
    seed by seed.
    """

    words: tuple[str, ...]
    under: Sequence[Spread]
    mean: Spread


def rank(observations: Observations, ranking: Ranking, arm: Arm) -> list[Ranked]:
    """Returns the combinations that ran in all experiments, in descending order of the mean."""
    found = [_ranked(observations, ranking, arm, words) for words, _ in ranking.combinations()]
    return sorted((one for one in found if one is not None), key=lambda one: -one.mean.median)


def _ranked(observations: Observations, ranking: Ranking, arm: Arm, words: tuple[str, ...]) -> Ranked | None:
    cells = [(arm, variant_of(words), name) for name in ranking.under.values()]
    of_cells = [_values(observations.get(cell, ()), Measure.parse(ranking.of)) for cell in cells]
    seeds = [seed for seed in of_cells[0] if all(seed in values for values in of_cells)]
    mean = Spread.of([fmean(values[seed] for values in of_cells) for seed in seeds])
    spreads = [Spread.of([values[seed] for seed in seeds]) for values in of_cells]
    return None if mean is None else Ranked(words, [one for one in spreads if one is not None], mean)


def _values(runs: Sequence[Observation], measure: Measure) -> dict[int, float]:
    values = {one.seed: measured(measure, one) for one in runs}
    return {seed: value for seed, value in values.items() if not isinstance(value, Absent)}
