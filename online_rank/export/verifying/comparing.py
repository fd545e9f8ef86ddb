"""Compares the scores of an engine with the scores of probes, and finds what the documents that differ have in common."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from online_rank.export.probing import Probe, Probes

#: How many documents that differ are shown.
_SHOWN = 5


class Difference(NamedTuple):
    """A document that an engine scores otherwise: the probe, the engine's score, and the score that the export gives."""

    probe: Probe
    found: float
    expected: float


class Verdict(NamedTuple):
    """What an engine answered.

    Attributes
    ----------
    engine
        What was asked, and its version where it is known.
    n_documents, n_queries
        How many documents were scored, in how many queries.
    differences
        The documents that are scored otherwise, the largest differences first.
    otherwise
        The number of queries in which two documents stand in another order.
    reasons
        What the documents that differ have in common, the best explanation first.
    """

    engine: str
    n_documents: int
    n_queries: int
    differences: list[Difference]
    otherwise: int
    reasons: list[str]

    @property
    def equal(self) -> bool:
        """Whether all scores are equal."""
        return not self.differences

    def in_words(self) -> str:
        """The verdict for people."""
        if self.equal:
            return f"equal: {self.engine} scores {self.n_documents:,} probe documents as the exported model does"
        lines = [
            f"NOT equal: {self.engine} scores {len(self.differences):,} of {self.n_documents:,} probe documents otherwise, and "
            f"ranks {self.otherwise} of {self.n_queries} queries otherwise"
        ]
        lines += [f"  why: {reason}" for reason in self.reasons]
        for probe, found, expected in self.differences[:_SHOWN]:
            lines.append(f"  {probe.id}: {found:.9g} there, {expected:.9g} here; {_shown(probe)}")
        if len(self.differences) > _SHOWN:
            lines.append(f"  and {len(self.differences) - _SHOWN:,} more documents")
        return "\n".join(lines)


def _shown(probe: Probe) -> str:
    return ", ".join(f"{field}={value!r}" for field, value in probe.fields.items()) or "no field"


def compared(given: Probes, engine: str, answers: Sequence[Sequence[float]]) -> Verdict:
    """The verdict on the scores of an engine, one list for each query of the probes.

    Raises
    ------
    ValueError
        The engine did not answer for every document.
    """
    differences, otherwise = [], 0
    agreeing: list[Probe] = []
    for query, scores in zip(given.queries, answers, strict=True):
        if len(scores) != len(query):
            raise ValueError(f"{engine} gave {len(scores)} scores for {len(query)} documents of a query")
        found = np.asarray(scores, dtype=float)
        expected, allowed = (np.array([getattr(probe, part) for probe in query]) for part in ("score", "allowed"))
        if given.shift:
            found = found + np.median(expected - found)
            # The constant is as precise as typical scores are there.
            allowed = allowed + 2e-7 * np.median(np.abs(expected))
        if given.target == "painless":
            expected, allowed = _positive(expected, allowed)
        wrong = ~(np.abs(found - expected) <= allowed)
        otherwise += bool(wrong.any()) and _ranks_otherwise(found, expected, allowed)
        for probe, own, there, is_wrong in zip(query, found.tolist(), expected.tolist(), wrong.tolist(), strict=True):
            if is_wrong:
                differences.append(Difference(probe, own, there))
            else:
                agreeing.append(probe)
    differences.sort(key=lambda one: -abs(np.nan_to_num(one.found - one.expected, nan=np.inf)))
    reasons = reasons_of([one.probe for one in differences], agreeing) if differences else []
    n = sum(map(len, given.queries))
    return Verdict(engine, n, len(given.queries), differences, otherwise, reasons)


def _positive(scores: np.ndarray, allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores as the script makes them positive, and what is allowed there, in single precision."""

    def made(s: np.ndarray) -> np.ndarray:
        return np.where(s < 0.0, 1.0 / (1.0 - np.minimum(s, 0.0)), 1.0 + s)

    shown = made(scores)
    return shown, np.maximum(made(scores + allowed) - shown, 2e-7 * shown)


def _ranks_otherwise(found: np.ndarray, expected: np.ndarray, allowed: np.ndarray) -> bool:
    """Whether two documents that are further apart than allowed stand in the other order."""
    order = np.argsort(-found, kind="stable")
    there = expected[order]
    # The lowest expected score so far, among documents that the engine ranks before.
    lowest = np.minimum.accumulate(np.where(np.isnan(there), np.inf, there))
    return bool((there[1:] > lowest[:-1] + 2.0 * allowed.max(initial=0.0)).any()) or bool(np.isnan(found).any())


def reasons_of(differing: Sequence[Probe], agreeing: Sequence[Probe], most: int = 3) -> list[str]:
    """What most of the documents that differ have in common, and few of the documents that are equal."""
    if not agreeing:
        return ["every document differs: another model or name, or features that the engine does not find"]
    candidates: list[tuple[float, float, str]] = []
    for field in dict.fromkeys(field for probe in [*differing, *agreeing] for field in probe.fields):
        for holds, text in _predicates(field, differing):
            own, others = sum(map(holds, differing)), sum(map(holds, agreeing))
            share, of_others = own / len(differing), others / len(agreeing)
            if share >= 0.5 and share > of_others:
                shares = f"{share:.0%} of the documents that differ, and {of_others:.0%} of the others"
                candidates.append((share - of_others, own / (own + others), f"{text}: {shares}"))
    candidates.sort(key=lambda one: (-round(one[0], 3), -one[1]))
    return [text for _, _, text in candidates[:most]] or ["no field alone tells the documents that differ from the others"]


def _predicates(field: str, differing: Sequence[Probe]) -> list[tuple[Callable[[Probe], bool], str]]:
    """What may hold for documents: a field is missing, has a level, or is in an interval."""
    made: list[tuple[Callable[[Probe], bool], str]] = [(lambda p: field not in p.fields, f"{field} is missing")]
    values = [probe.fields[field] for probe in differing if field in probe.fields]
    for text in dict.fromkeys(value for value in values if isinstance(value, str)):
        made.append((lambda p, text=text: p.fields.get(field) == text, f"{field} is {text!r}"))  # type: ignore[misc]
    numbers = sorted(value for value in values if not isinstance(value, str))
    if numbers:
        low, high = numbers[len(numbers) // 20], numbers[-1 - len(numbers) // 20]
        inside = f"{field} is {low!r}" if low == high else f"{field} is between {low!r} and {high!r}"
        made.append((lambda p: field in p.fields and low <= p.fields[field] <= high, inside))
        made.append((lambda p: p.fields.get(field) == 0.0, f"{field} is 0"))
    return made
