"""Campaigns in slices: a slice is kept as soon as it is measured, so that a campaign adds up over several runs."""

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from benchmarks._kept import Kept

Row = tuple[object, ...]
#: What slices count, by name: numbers add up, "the same" holds if it held in each, lists of complaints are joined.
Tally = dict[str, dict[str, Any]]


class Campaign(NamedTuple):
    """A part of the benchmark that can be measured slice by slice.

    Attributes
    ----------
    slices
        How many make the full campaign.
    measure
        Measures a slice, given its number, from 0, and the seed.
    rows
        The rows of the table for what all slices counted.
    """

    slices: int
    measure: Callable[[int, int], Tally]
    rows: Callable[[Tally], list[Row]]


class Progress:
    """How far campaigns have come.

    Parameters
    ----------
    campaigns
        By name.
    size
        The share of each that is wanted: 1.0 is the full campaign. Those of a smaller size are the beginning of a larger one.
    seed
        All slices follow from it.
    kept
        What was measured so far.
    """

    def __init__(self, campaigns: dict[str, Campaign], size: float, seed: int, kept: Kept) -> None:
        self._campaigns = campaigns
        self._wanted = {name: max(1, math.ceil(size * campaign.slices)) for name, campaign in campaigns.items()}
        self._seed = seed
        self._kept = kept

    def measure(self, minutes: float) -> None:
        """Measure what is missing, for some minutes; next is always a slice of what is furthest behind."""
        until = time.monotonic() + 60.0 * minutes
        while time.monotonic() < until:
            missing = {name: self._missing(name) for name in self._campaigns}
            behind = [name for name, numbers in missing.items() if numbers]
            if not behind:
                return
            name = max(behind, key=lambda name: len(missing[name]) / self._campaigns[name].slices)
            number = missing[name][0]
            measure = partial(self._campaigns[name].measure, number, self._seed)
            tally = self._kept.part(self._slice(name, number), measure)
            print(f"{name}, slice {number}:", tally, flush=True)

    def n_done(self, name: str) -> int:
        """How many slices of a campaign were measured."""
        return sum(self._has(name, number) for number in range(self._campaigns[name].slices))

    def section(self, name: str) -> tuple[list[Row], str]:
        """The rows of a campaign, and what was run of it, and on which code."""
        campaign = self._campaigns[name]
        done = [self._slice(name, number) for number in range(campaign.slices) if self._has(name, number)]
        tallies = [self._kept.part(each, dict) for each in done]
        note = f"{len(done)} of the {campaign.slices} slices of the full campaign. {self._kept.code_of(*done)}"
        return campaign.rows(added(tallies)), note

    def _missing(self, name: str) -> list[int]:
        return [number for number in range(self._wanted[name]) if not self._has(name, number)]

    def _has(self, name: str, number: int) -> bool:
        return self._slice(name, number) in self._kept

    def _slice(self, name: str, number: int) -> str:
        return f"{name}, slice {number} of {self._campaigns[name].slices}, seed {self._seed}"


def added(tallies: Sequence[Tally]) -> Tally:
    """The sum of tallies.

    Examples
    --------
    >>> added([{"serve": {"kills": 3, "same": True}}, {"serve": {"kills": 4, "same": False}}])
    {'serve': {'kills': 7, 'same': False}}
    """
    total: Tally = {}
    for tally in tallies:
        for group, counts in tally.items():
            sums = total.setdefault(group, {})
            for name, value in counts.items():
                if name not in sums:
                    sums[name] = value
                else:
                    sums[name] = sums[name] and value if isinstance(value, bool) else sums[name] + value
    return total


def seed_of(seed: int, number: int) -> int:
    """The seed of a slice."""
    return 1_000_003 * seed + number
