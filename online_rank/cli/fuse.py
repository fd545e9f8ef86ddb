"""`online-rank fuse`: runs of several retrievers, fused by today's rules and by what their judgements teach."""

import json
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console

from online_rank.base import ranker_of
from online_rank.bounds import certificate_of
from online_rank.cli.files import check_outputs
from online_rank.cli.options import Fusion, Written
from online_rank.cli.printing import table
from online_rank.cli.runs import LEARNED, RULES, FusedQuery, names_of, queries_of, ranked
from online_rank.intervals import PairedLosses
from online_rank.intervals.paired import EXPECTATION
from online_rank.measures.learned import measure as parse_measure
from online_rank.metrics import metric
from online_rank.preprocessing import RunFeatures
from online_rank.query import Runs
from online_rank.rankers.fixed import FixedRanker
from online_rank.rankers.hybrid import hybrid
from online_rank.rankers.rules import rule_weights
from online_rank.stream.trec import read_judgements, read_run


def fuse(files: Sequence[str], qrels: str, settings: Fusion, written: Written, as_json: bool = False) -> None:
    """Fuse runs query by query: each is ranked by what was learned from the queries before it, and then learned.

    Raises
    ------
    ValueError
        Runs and judgements share no query or no document, a run shares no query with the others, or there is one run alone.
    """
    check_outputs([*files, qrels], **written._asdict())
    names = names_of(files)
    judged = read_judgements(qrels)
    queries = list(queries_of([read_run(file, by_rank=True) for file in files], names, judged))
    n_judged = sum(bool(query.judged) for query in queries)
    if not n_judged:
        raise ValueError(f"{qrels} judges none of the queries of the runs")
    _require_judged_together(queries, names, [*judged], qrels)
    model = hybrid(names, today=settings.today, k=settings.k, measure=settings.measure)
    losses, fused, paired = _ranked(queries, names, model, settings)
    report = {
        "queries": len(queries),
        "judged": n_judged,
        "measure": parse_measure(settings.measure).name,
        "values": {name: 1.0 - float(np.mean(values)) for name, values in losses.items()},
        "differences": {name: paired.difference(name, "rrf")._asdict() for name in losses if name != "rrf" and paired.n},
        "certificate": _certified(model),
        "weights": _weights(model, names),
        "written": written.write(fused, model),
        "note": EXPECTATION,
    }
    if as_json:
        print(json.dumps(report))
    else:
        _print(report, settings)


def _require_judged_together(queries: Sequence[FusedQuery], names: Sequence[str], judged: Sequence[str], qrels: str) -> None:
    """Raise ValueError if the runs have no judged document; warn of each run that has none, and of queries that no run has."""
    met: dict[Any, bool] = dict.fromkeys(names, False)
    for query in queries:
        for document in query.judged:
            for run in query.runs.documents.get(document, ()):
                met[run] = True
    if not any(met.values()):
        raise ValueError(f"{qrels} judges no document of the runs: ids may be spelled differently")
    for run in (run for run, found in met.items() if not found):
        warnings.warn(f"{qrels} judges no document of {run}: its ids may be spelled differently", stacklevel=2)
    if elsewhere := len({*judged} - {query.qid for query in queries}):
        warnings.warn(f"{qrels} judges {elsewhere:,} queries that no run has; they are not counted", stacklevel=2)


def _certified(model: Any) -> dict[str, Any]:
    """What the account of the blend says about today's rule: its loss, what was served, at most, and the judged queries."""
    certificate = certificate_of(model)
    _, today, at_most = certificate.facts["favoured"]
    return {"today": today, "served": certificate.loss, "at_most": at_most, "counted": certificate.totals["counted_weight"]}


def _ranked(
    queries: Sequence[FusedQuery], names: Sequence[str], model: Any, settings: Fusion
) -> tuple[dict[str, list[float]], dict[str, dict[str, float]], PairedLosses]:
    """Rank each query, then learn it: the losses of each way to rank, on the judged queries; the learned run; differences."""
    rules = {
        rule: RunFeatures(names, parts=("minmax", "reciprocal_rank"), k=settings.k) | FixedRanker(rule_weights(rule, names))
        for rule in RULES
    }
    losses: dict[str, list[float]] = {name: [] for name in (*names, *RULES, LEARNED)}
    paired, fused = PairedLosses([*losses]), {}
    for query in queries:
        fused[query.qid] = ranked(model, query.runs)
        if not query.judged:
            continue
        rankings = {name: _of_run(query.runs, name) for name in names}
        rankings |= {rule: ranker.rank_one(query.runs) for rule, ranker in rules.items()}
        rankings[LEARNED] = [*fused[query.qid]]
        lost = {name: _loss(settings.measure, ranking, query.judged) for name, ranking in rankings.items()}
        if None not in lost.values():
            paired.update(lost)  # type: ignore[arg-type]
            for name, loss in lost.items():
                losses[name].append(loss)  # type: ignore[arg-type]
        model.learn_one(query.runs, query.grades)
    return losses, fused, paired


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
    shown = table("", report["measure"], "less RRF, 95 % interval at any time")
    for name, value in report["values"].items():
        by = report["differences"].get(name)
        said = "" if by is None else f"{by['mean']:+.4f}  ({by['lower']:+.4f} to {by['upper']:+.4f})"
        called = RULES.get(name, name) if name != LEARNED else f"learned, beginning with {settings.today}"
        shown.add_row(called, f"{value:.4f}", said)
    console.print(shown)
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
    says = "something" if certified["at_most"] < certified["counted"] else "nothing yet"
    return (
        f"Certified over the candidates: {today} lost {certified['today']:.2f}, served {certified['served']:.2f}; "
        f"at most {certified['at_most']:.2f}, which says {says}."
    )
