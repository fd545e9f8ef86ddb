"""`online-rank fuse --click-log`: weights of retrievers from a log of lists that were shown, and of the clicks on them."""

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from online_rank.base import ranker_of, transformers_of
from online_rank.cli.click_log import SAYS, ClickLog, Seen, compared, read_as
from online_rank.cli.files import check_outputs
from online_rank.cli.next_step import against
from online_rank.cli.options import Clicks, Fusion, Written
from online_rank.cli.printing import table
from online_rank.cli.reading import Reading, look
from online_rank.cli.runs import names_of, ranked, read_runs
from online_rank.metrics import OffPolicyValue
from online_rank.preprocessing import RunFeatures
from online_rank.rankers import ClickPerceptron, SwapRanker
from online_rank.rankers.fixed import FixedRanker
from online_rank.rankers.rules import FAST_SWAP_BEGINNING, rule_weights

# How strongly a `ClickPerceptron` holds on to today's rule, in units of normalised scores.
_STRENGTH = 3.0


def fuse_clicks(
    files: Sequence[str],
    log_file: str,
    given: Clicks,
    reading: Reading,
    settings: Fusion,
    written: Written,
    as_json: bool = False,
) -> None:
    """Begin with today's rule, and learn from the clicks on lists of documents of the runs.

    Raises
    ------
    ValueError
        The log has no list of a query of the runs.
    """
    check_outputs([*files, log_file], **written._asdict())
    names = names_of(files)
    queries = {query.qid: query.runs for query in read_runs(files)}
    log = read_as([log_file], given._replace(topic=given.topic or "query"), reading._replace(features=[]))
    origin = log.origin
    if reading.dry_run:
        look(log.reader([str(log.topic)]))
    shown = False if as_json else None
    seen = log.examined(shown)
    examination = compared(log, seen.deepest, shown).examination if origin == "moved" else None
    part = {"rrf": "reciprocal_rank"}.get(settings.today, settings.today)
    if origin == "shuffled":
        learner: Any = SwapRanker.from_rule(settings.today, names, **FAST_SWAP_BEGINNING)
    else:
        # Reciprocal ranks are at most 1 / (k + 1).
        strength = _STRENGTH * (settings.k + 1.0 if settings.today == "rrf" else 1.0)
        options = {"credit": "propensity", "examination": examination, "strength": strength}
        learner = ClickPerceptron.from_rule(settings.today, names, **options)
    model: Any = RunFeatures(names, parts=(part,), k=settings.k) | learner
    report = {"origin": origin, **_taught(model, settings.today, log, queries, seen, shown)}
    if not report["lists"]:
        raise ValueError(f"{log_file} has no list of a query of the runs")
    ranker = ranker_of(model)
    known = dict(zip(ranker.feature_names, ranker.served_weights.tolist(), strict=True))
    total = sum(map(abs, known.values())) or 1.0
    report["shares"] = {name: known[f"{name} {part}"] / total for name in names}
    report["written"] = written.write({qid: ranked(model, runs) for qid, runs in queries.items()}, model)
    if as_json:
        print(json.dumps(report))
    else:
        _print(report, settings)


def _taught(model: Any, rule: str, log: ClickLog, queries: dict[str, Any], seen: Seen, shown: bool | None) -> dict[str, Any]:
    """Teach the model the lists; what was met and, where the log allows it, the value of what both would show first."""
    (features,), ranker = transformers_of(model), ranker_of(model)
    rankers = {"today": FixedRanker(rule_weights(rule, features.runs)), "learned": ranker}
    values = {name: OffPolicyValue() for name in rankers} if log.origin in ("shuffled", "above") else {}
    met = {"lists": 0, "clicked": 0, "other_queries": 0}
    for x, clicks in log.watched("learning from clicks", shown, [str(log.topic)]):
        runs = queries.get(str(x.context[0][log.topic]))
        if runs is None:
            met["other_queries"] += 1
            continue
        # Scores are normalised within whole runs, of which a list may have been drawn from a part.
        made = features.transform_one(runs)
        listed = {document: made.get(str(document), {}) for document in x.ids}
        for name, value in values.items():
            value.update(seen.scaled(clicks), rankers[name].rank_one(listed))
        ranker.learn_one(listed, clicks)
        met["lists"] += 1
        met["clicked"] += clicks.any
    verdict = against(values.get("today"), values.get("learned"), "what was learned", f"today's rule ({rule})")
    found = {name: value.interval()._asdict() for name, value in values.items()} if met["lists"] else {}
    return met | {"value_first": found, "verdict": verdict}


def _print(report: dict[str, Any], settings: Fusion) -> None:
    """The figures for people."""
    console = Console(highlight=False)
    console.print(
        f"[bold]{report['lists']:,}[/] lists, {report['clicked']:,} with a click; {report['other_queries']:,} of queries that "
        f"the runs lack\nlearned from {SAYS[report['origin']]}"
    )
    if report["value_first"]:
        shown = table("clicks on the first document, per list", "off-policy, 95 % interval")
        for name, label in (("today", settings.today), ("learned", "each list ranked as learned, then learned")):
            value = report["value_first"][name]
            shown.add_row(label, f"{value['mean']:.4f} ({value['lower']:.4f} to {value['upper']:.4f})")
        console.print(shown)
    console.print(report["verdict"])
    for name, share in report["shares"].items():
        console.print(f"  {name}: {share:+.3f} of the weights, {1.0 / len(report['shares']):.3f} today")
    for path in report["written"]:
        console.print(f"wrote [bold]{path}[/]")
