"""`online-rank fuse`: runs of several retrievers, fused by today's rules and by what their judgements teach."""

import importlib.util
import json
import math
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from online_rank.base import ranker_of, serving_steps
from online_rank.bounds import certificate_of
from online_rank.cli.files import refuse_overwriting
from online_rank.intervals import PairedLosses
from online_rank.intervals.paired import EXPECTATION
from online_rank.measures.learned import measure as parse_measure
from online_rank.metrics import metric
from online_rank.preprocessing import RunFeatures
from online_rank.query import Runs
from online_rank.rankers.fixed import FixedRanker
from online_rank.rankers.hybrid import hybrid
from online_rank.rankers.rules import rule_weights
from online_rank.stream.trec import read_judgements, read_run, write_run

__all__ = ["Fusion", "Written", "fuse", "names_of", "read_runs", "refuse_outputs", "require_runs"]

#: What the rules are called; these names are taken.
_RULES = {"rrf": "reciprocal rank fusion", "minmax": "mean of min-max scores"}
_LEARNED = "learned"


class Written(NamedTuple):
    """Where the fused run, the model and the picture are written."""

    run: str | None = None
    model: str | None = None
    picture: str | None = None


class Fusion(NamedTuple):
    """What is learned, and from which rule it begins."""

    today: str = "minmax"
    measure: str = "ndcg@10"
    k: float = 60.0
    level: float = 0.95


class _Query(NamedTuple):
    """A query: its id, what the retrievers returned, and its judgements."""

    qid: str
    runs: Runs
    judged: Mapping[Any, int]

    @property
    def grades(self) -> dict[Any, int]:
        """The grades of the candidates; one that was not judged has 0."""
        return {document: self.judged.get(document, 0) for document in self.runs.ids}


def fuse(files: Sequence[str], qrels: str, settings: Fusion, written: Written, as_json: bool = False) -> None:
    """Fuse runs query by query: each is ranked by what was learned from the queries before it, and then learned.

    Raises
    ------
    ValueError
        Runs and judgements share no query or no document, a run shares no query with the others, or there is one run alone.
    """
    if not 0.0 < settings.level < 1.0:
        raise ValueError(f"--level is {settings.level:g}; it must be a probability between 0 and 1")
    refuse_outputs(written, [*files, qrels])
    names = names_of(files)
    judged = read_judgements(qrels)
    queries = list(_queries([read_run(file) for file in files], names, judged))
    n_judged = sum(bool(query.judged) for query in queries)
    if not n_judged:
        raise ValueError(f"{qrels} judges none of the queries of the runs")
    _require_judged_together(queries, names, [*judged], qrels)
    model = hybrid(names, today=settings.today, k=settings.k, measure=settings.measure)
    course = _ranked(queries, names, model, settings)
    losses, paired = course.losses, course.paired
    if written.run is not None:
        write_run(written.run, course.fused, tag="online_rank")
    if written.model is not None:
        from online_rank.storage.files import save

        save(model, written.model)
    if written.picture is not None:
        _draw(losses, parse_measure(settings.measure).name, written.picture)
    report = {
        "queries": len(queries),
        "judged": n_judged,
        "measure": parse_measure(settings.measure).name,
        "values": {name: 1.0 - float(np.mean(values)) for name, values in losses.items()},
        "differences": {
            name: paired.difference(name, "rrf", settings.level)._asdict() for name in losses if name != "rrf" and paired.n
        },
        "certificate": course.certified._asdict(),
        "weights": _weights(model, names),
        "written": [path for path in written if path is not None],
        "note": EXPECTATION,
    }
    if as_json:
        print(json.dumps(report))
    else:
        _print(report, settings)


def refuse_outputs(written: Written, read: Sequence[str]) -> None:
    """Raise ValueError if an output would overwrite an input or another output, ImportError if nothing can draw."""
    if written.picture is not None and importlib.util.find_spec("matplotlib") is None:
        raise ImportError('--plot needs matplotlib: pip install "online_rank[plot]"')
    taken = list(read)
    for option, path in zip(("--out", "--save", "--plot"), written, strict=True):
        if path is not None:
            refuse_overwriting(option, path, taken)
            taken.append(path)


def names_of(files: Sequence[str]) -> list[str]:
    """The retrievers, called as their files are without folder and ending, or by the whole path where that is ambiguous."""
    if len(files) < 2:
        raise ValueError("nothing to fuse: give at least two runs")
    short = [os.path.splitext(os.path.basename(file))[0] for file in files]
    names = short if len(set(short)) == len(short) else list(files)
    if len(set(names)) < len(names) or {*names} & {*_RULES, _LEARNED}:
        raise ValueError(f"the runs are called {', '.join(names)}: they need names of their own, and not those of the rules")
    return names


def read_runs(files: Sequence[str]) -> Iterator["_Query"]:
    """The queries of TREC runs, by name of the files, without judgements."""
    return _queries([read_run(file) for file in files], names_of(files), {})


def require_runs(model: Any, files: Sequence[str]) -> None:
    """Raise ValueError if the model knows no retriever of the name of a file; warn of retrievers without a file."""
    features = serving_steps(model)[0]
    if not isinstance(features, RunFeatures) or features.runs is None:
        return
    names, known = names_of(files), ", ".join(features.runs)
    for name in names:
        if name not in features.runs:
            raise ValueError(f"the model fuses {known}, and no run {name!r}; runs are called as their files, without ending")
    if missing := [run for run in features.runs if run not in names]:
        warnings.warn(
            f"the model fuses {known}; without {', '.join(missing)}, none of its documents counts as found", stacklevel=2
        )


def _require_judged_together(queries: Sequence[_Query], names: Sequence[str], judged: Sequence[str], qrels: str) -> None:
    """Raise ValueError if the runs have no judged document; warn of each run that has none, and of queries that no run has."""
    met: dict[Any, bool] = dict.fromkeys(names, False)
    for query in queries:
        for document in query.judged:
            for run in query.runs.documents.get(document, ()):
                met[run] = True
    if not any(met.values()):
        raise ValueError(f"{qrels} judges no document of the runs: ids may be written otherwise")
    for run in (run for run, found in met.items() if not found):
        warnings.warn(f"{qrels} judges no document of {run}: its ids may be written otherwise", stacklevel=2)
    if elsewhere := len({*judged} - {query.qid for query in queries}):
        warnings.warn(f"{qrels} judges {elsewhere:,} queries that no run has; they are not counted", stacklevel=2)


def _queries(
    runs: Sequence[Mapping[str, Mapping[str, float]]], names: Sequence[str], judged: Mapping[str, Mapping[str, int]]
) -> Iterator[_Query]:
    """The queries of all runs, in the order in which they are met. Raises ValueError for a run that shares none."""
    for name, run in zip(names, runs, strict=True):
        if not any(qid in run for other in runs if other is not run for qid in other):
            raise ValueError(f"the run {name} has no query of the others: ids may be written otherwise")
    for qid in dict.fromkeys(qid for run in runs for qid in run):
        lists: dict[Any, Any] = {name: list(run.get(qid, {}).items()) for name, run in zip(names, runs, strict=True)}
        yield _Query(qid, Runs(lists), judged.get(qid, {}))


class Certified(NamedTuple):
    """What the account of the blend says about today's rule, over the candidates.

    Attributes
    ----------
    today, served
        The cumulative losses of the rule, and of what was served.
    at_most
        What the bound says of the latter.
    says_something_from
        The number of judged queries from which on the bound is below their number; None if it is not.
    """

    today: float = 0.0
    served: float = 0.0
    at_most: float = math.inf
    says_something_from: int | None = None

    def after(self, n: int, model: Any) -> "Certified":
        """The same after n judged queries."""
        certificate = certificate_of(model)
        _, today, at_most = certificate.facts["favoured"]
        silent = at_most >= certificate.totals["counted_weight"]
        since = None if silent else n if self.says_something_from is None else self.says_something_from
        return Certified(today, certificate.loss, at_most, since)


class _Course(NamedTuple):
    """One pass: losses of each way to rank, on the judged queries; the learned run; differences; what is certified."""

    losses: dict[str, list[float]]
    fused: dict[str, dict[str, float]]
    paired: PairedLosses
    certified: Certified


def _ranked(queries: Sequence[_Query], names: Sequence[str], model: Any, settings: Fusion) -> _Course:
    """Rank each query, then learn it."""
    rules = {
        rule: RunFeatures(names, parts=("minmax", "reciprocal_rank"), k=settings.k) | FixedRanker(rule_weights(rule, names))
        for rule in _RULES
    }
    losses: dict[str, list[float]] = {name: [] for name in (*names, *_RULES, _LEARNED)}
    paired, fused, certified, n_judged = PairedLosses([*losses]), {}, Certified(), 0
    for query in queries:
        scores = model.predict_one(query.runs)
        learned = sorted(scores, key=scores.__getitem__, reverse=True)
        fused[query.qid] = {document: scores[document] for document in learned}
        if not query.judged:
            continue
        rankings = {name: _of_run(query.runs, name) for name in names}
        rankings |= {rule: ranker.rank_one(query.runs) for rule, ranker in rules.items()}
        rankings[_LEARNED] = learned
        lost = {name: _loss(settings.measure, ranking, query.judged) for name, ranking in rankings.items()}
        if None not in lost.values():
            paired.update(lost)  # type: ignore[arg-type]
            for name, loss in lost.items():
                losses[name].append(loss)  # type: ignore[arg-type]
        model.learn_one(query.runs, query.grades)
        n_judged += 1
        certified = certified.after(n_judged, model)
    return _Course(losses, fused, paired, certified)


def _of_run(runs: Runs, name: str) -> list[Any]:
    """The documents that a retriever returned, best first."""
    found = {document: known[name].rank for document, known in runs.documents.items() if name in known}
    return sorted(found, key=found.__getitem__)


def _loss(measure: str, ranking: Sequence[Any], judged: Mapping[Any, int]) -> float | None:
    """What a ranking loses of the measure over all that was judged, returned or not; None without a relevant document."""
    if not any(judged.values()):
        return None
    places = {document: -float(place) for place, document in enumerate(ranking)}
    scores = places | {document: -np.inf for document in judged if document not in places}
    value = metric(measure)
    value.update({document: judged.get(document, 0) for document in scores}, scores)
    return 1.0 - value.get()


def _weights(model: Any, names: Sequence[str]) -> dict[str, Any]:
    """What was learned: the share of each member of the blend, and of the perceptron the weight of each part of each run."""
    blend = ranker_of(model)
    perceptron = blend.learners[1]
    known = dict(zip(perceptron.feature_names, perceptron.weights.tolist(), strict=True))
    parts = ("minmax", "zscore", "reciprocal_rank", "found")
    by_run = {name: {part: known[f"{name} {part}"] for part in parts if f"{name} {part}" in known} for name in names}
    shares = dict(zip(("today's rule", "perceptron", "ridge"), blend.weights.tolist(), strict=True))
    return {"shares": shares, "perceptron": by_run}


def _print(report: dict[str, Any], settings: Fusion) -> None:
    """The figures for people."""
    console = Console(highlight=False)
    console.print(f"[bold]{report['queries']:,}[/] queries, [bold]{report['judged']:,}[/] judged")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("", report["measure"], f"less RRF, {100 * settings.level:g} % interval at any time"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, value in report["values"].items():
        by = report["differences"].get(name)
        said = "" if by is None else f"{by['mean']:+.4f}  ({by['lower']:+.4f} to {by['upper']:+.4f})"
        called = _RULES.get(name, name) if name != _LEARNED else f"learned, beginning with {settings.today}"
        table.add_row(called, f"{value:.4f}", said)
    console.print(table)
    shares = ", ".join(f"{share:.2f} {name}" for name, share in report["weights"]["shares"].items())
    console.print(f"served now: {shares}")
    for name, parts in report["weights"]["perceptron"].items():
        console.print(f"  {name}: " + ", ".join(f"{part} {weight:+.3f}" for part, weight in parts.items()))
    console.print(_in_words(report["certificate"], settings.today))
    console.print("Each query was ranked before it was learned. " + report["note"])
    for path in report["written"]:
        console.print(f"wrote [bold]{path}[/]")


def _in_words(certified: dict[str, Any], today: str) -> str:
    """The line on the certificate."""
    since = certified["says_something_from"]
    when = f"which says something from query {since:,} on" if since else "which says nothing yet"
    return (
        f"Certified over the candidates: {today} lost {certified['today']:.2f}, served {certified['served']:.2f}; "
        f"at most {certified['at_most']:.2f}, {when}."
    )


def _draw(losses: dict[str, list[float]], measure: str, path: str) -> None:
    """Plot the mean of the measure so far: of today's rules, of what is learned, and of the best retriever."""
    from online_rank import plot

    names = [name for name in losses if name not in (*_RULES, _LEARNED)]
    best = min(names, key=lambda name: sum(losses[name]))
    curves = {_RULES.get(name, name): [1.0 - loss for loss in losses[name]] for name in (_LEARNED, *_RULES, best)}
    ax = plot.online_quality(curves)
    ax.set_xlabel("judged queries")
    ax.set_title(f"mean {measure} so far", loc="left", fontsize=ax.xaxis.label.get_fontsize())
    figure: Any = ax.figure
    figure.savefig(path, dpi=150)
