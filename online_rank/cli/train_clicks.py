"""`online-rank train --clicks`: a model from a log of lists that were shown, and of the clicks on them."""

import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console

from online_rank.base import ranker_of
from online_rank.cli.click_log import SAYS, ClickLog, Seen, check_history, compared, read_as
from online_rank.cli.files import behind, check_outputs, declared, histories_of
from online_rank.cli.held_out import HeldOut
from online_rank.cli.next_step import after_drawn, after_moved, against
from online_rank.cli.options import Clicks, Output
from online_rank.cli.positions import examined
from online_rank.cli.printing import table
from online_rank.cli.reading import check_files, look, warnings_as_lines
from online_rank.cli.settings import Settings
from online_rank.cli.train import behind_map, new_model, require_known_signs
from online_rank.cli.ways import LEARNED, taught, ways
from online_rank.stream.plan import n_features_of
from online_rank.support.registry import of_another_part

#: The least examination that a click is divided by.
_LEAST_LOOKED_AT = 0.01


def learn(given: Clicks, settings: Settings, output: Output, ranker: str | None) -> None:
    """Learn a model from a log of clicks, print what it learned and how well it ranks, and save it; or show the columns.

    `ranker` is the kind of model that was named; None if none was.
    """
    with warnings_as_lines(output.warn):
        if not settings.files:
            raise ValueError("--clicks needs a table to learn from")
        for option, text in (("--topic", given.topic), ("--examination", given.examination), ("--shown-on", given.shown_on)):
            if text is not None and given.clicks != "moved":
                raise ValueError(f"{option} is for --clicks moved")
        if given.shown_on is not None and ranker is not None:
            raise ValueError("--shown-on is for the default of --clicks moved: leave out --ranker")
        check_files(settings.test)
        log = read_as(settings.files, given, settings.reading)
        if log.reading.dry_run:
            look(log.reader())
        _learn(log, settings, output, ranker)


def _learn(log: ClickLog, settings: Settings, output: Output, ranker: str | None) -> None:
    from online_rank.storage.files import save

    check_outputs([*log.files, *settings.test], save=output.save, report=output.report)
    signs = settings.signs
    if settings.history:
        check_history(log, settings.history, settings.passes)
    # Which columns are keys, and what else the ranker behind takes.
    log = log._replace(model=behind(histories_of(settings.history), learner_for(log.origin, None, ranker, signs)))
    log, lines = log.without_leaks()
    lists = log.reader()
    plan = lists.plan
    require_known_signs(signs, lists, log.files)
    for line in plan.in_words() + lines:
        output.warn(line)
    shown = False if output.quiet or output.json else None
    seen = log.examined(shown)
    if not seen.clicked:
        raise ValueError(
            f"{', '.join(log.files)}: no list has a click, so nothing can be learned: is --click the column of clicks?"
        )
    if seen.empty:
        output.warn(f"left out are lists of which no row has a position: {seen.empty:,}")
    if seen.alone:
        output.warn(f"{seen.alone:,} of {seen.lists:,} lists have a single candidate: from these nothing is learned")
    examination, judged, held = log.examination, None, None
    if log.origin == "moved" and examination is None:
        examination, judged = _measured(log, seen.deepest, ranker, shown, output.warn)
    if examination is not None and len(examination) < seen.deepest and (ranker or log.examination):
        output.warn(
            f"how often positions below {len(examination)} are examined is not known: clicks there count as clicks at position "
            f"{len(examination)}"
        )
    trust, history = None, _histories(settings, log, seen, examination, shown, output.warn)
    if log.origin == "moved":
        models = ways(ranker, examination, log.examination is not None, signs, log.shown_on)
        models = {name: _behind(history(), each, log, plan) for name, each in models.items()}
        (model, held), logged = _best(models, log, seen, settings.passes, shown, output.warn)
        value = None
        # Also where another way is kept: it alone knows clicks that come from trust.
        learned = ranker_of(models.get(LEARNED, model))
        examination, trust = getattr(learned, "examined", examination), getattr(learned, "trust", None)
    else:
        if settings.passes > 1:
            raise ValueError("--passes is for --clicks moved: lists that were drawn are learned once")
        model = _behind(history(), learner_for(log.origin, examination, ranker, signs), log, plan)
        logged, value = _taught(model, log, seen, shown)
    report: dict[str, Any] = {"files": list(log.files), "origin": log.origin, **seen._asdict()}
    report |= {"features": n_features_of(model) or 0, **_figures(logged, value)}
    report["verdict"] = against(logged, value, "the model", "the logged ranking")
    if examination is not None:
        report |= {"examination": list(examination)} | ({} if trust is None else {"trust": trust})
    report["next"] = after_drawn(logged, value) if held is None else after_moved(held, examination or (1.0,), judged)
    if settings.test:
        report["test"] = _tested(model, log.on(settings.test), examination, shown)
    if output.save is not None:
        save(model, output.save)
        report["saved"] = output.save
    if output.report is not None:
        report["report"] = _page(output.report, report, log, model, plan)
    if output.json:
        print(json.dumps(report))
    elif not output.quiet:
        _print(report)


def _histories(
    settings: Settings, log: ClickLog, seen: "Seen", examination: tuple[float, ...] | None, shown: bool | None, tell: Any
) -> Callable[[], list[Any]]:
    """What makes the transformers of `--history`, which count clicks by the examination of their positions.

    Without an examination it is learned with the features first. For drawn lists it is not known; in random order
    each document is as often at each position as any other.
    """
    if settings.history and log.origin == "moved" and examination is None:
        from online_rank import ClickBlendRanker

        tell("--history: how often positions are looked at is learned with the features first")
        first = ClickBlendRanker(signs=settings.signs, shown_on=log.shown_on)
        _taught(first, log._replace(model=first), seen, shown)
        examination = tuple(min(1.0, max(_LEAST_LOOKED_AT, theta)) for theta in first.examined)
    elif settings.history and log.origin in ("above", "place"):
        tell("--history counts clicks at all positions alike: how often these are looked at is not known")
    return functools.partial(histories_of, settings.history, examination if log.origin == "moved" else None)


def _behind(histories: Sequence[Any], model: Any, log: ClickLog, plan: Any) -> Any:
    """A new model behind histories, which refuses features that a log lacks, if this was asked for."""
    model = behind(histories, model)
    return declared(model, plan.features) if log.reading.strict else model


def learner_for(origin: str, examination: tuple[float, ...] | None, ranker: str | None, signs: Mapping[str, int] | None) -> Any:
    """A new model for lists of this origin, of the kind that was named, if any was."""
    from online_rank import SwapRanker

    if origin == "shuffled" and ranker is None:
        return behind_map(SwapRanker, signs)
    # In lists in random order each document is as often at each position as any other.
    return examined(new_model("ndcg@10", ranker or "additive", signs), (1.0,) if origin == "shuffled" else examination)


def _measured(
    log: ClickLog, k: int, ranker: str | None, shown: bool | None, tell: Any
) -> tuple[tuple[float, ...] | None, tuple[int, int] | None]:
    """The examination by documents that moved, and how many pairs of all can be graded.

    None if a log does not determine it, and the ranker does without.
    """
    from online_rank.feedback.judgements import n_judged

    try:
        positions = compared(log, k, shown)
        return tuple(positions.known_examination), None if log.topic is None else n_judged(positions)
    except ValueError as error:
        if ranker is not None:
            raise
        tell(f"positions are learned with the features alone: {error}")
        return None, None


def _best(
    models: dict[str, Any], log: ClickLog, seen: "Seen", passes: int, shown: bool | None, tell: Any
) -> tuple[tuple[Any, HeldOut], Any]:
    """The model that foretells held-out clicks best, taught, with these clicks; and the gain of the first document as shown."""
    from online_rank.intervals import LossInterval

    logged = LossInterval()

    def read(number: int) -> Iterator[tuple[Any, Any]]:
        for x, clicks in log.watched(f"learning from clicks, pass {number + 1}" if number else "learning from clicks", shown):
            if not number:
                logged.update(seen.scaled(clicks).gains[0])
            yield x, clicks

    return taught(models, seen.lists, passes, read, tell), logged


def _taught(model: Any, log: ClickLog, seen: Seen, shown: bool | None, learns: bool = True) -> tuple[Any, Any]:
    """Teach the model the log; the gains of the first documents as shown and, where the log tells them, as it would rank."""
    from online_rank.intervals import LossInterval
    from online_rank.metrics import OffPolicyValue

    logged, value = LossInterval(), OffPolicyValue() if log.origin != "moved" else None
    for x, clicks in log.watched("learning from clicks" if learns else "testing", shown):
        scaled_clicks = seen.scaled(clicks)
        logged.update(scaled_clicks.gains[0])
        if value is not None:
            value.update(scaled_clicks, model.rank_one(x))
        if learns:
            model.learn_one(x, clicks)
    return logged, value


def _figures(logged: Any, value: Any) -> dict[str, Any]:
    """The gain of the first document as shown, and as the model would rank."""
    figures = {"gain_first": logged.mean, "logged_first": logged.interval()._asdict()}
    return figures | ({} if value is None else {"value_first": value.interval()._asdict()})


def _tested(model: Any, log: ClickLog, examination: tuple[float, ...] | None, shown: bool | None) -> dict[str, Any]:
    """What the model earns on held-out lists, without learning from them."""
    seen = log.examined(shown)
    about = {"files": list(log.files), **seen._asdict()}
    if examination is None:
        logged, value = _taught(model, log, seen, shown, learns=False)
        return about | _figures(logged, value) | {"verdict": against(logged, value, "the model", "the logged ranking")}
    discounts, sums = 1.0 / np.log2(np.arange(2.0, seen.longest + 2.0)), np.zeros(2)
    for x, clicks in log.watched("testing", shown):
        places = {document: place for place, document in enumerate(model.rank_one(x))}
        order = clicks.impression.order
        positions = np.array(clicks.impression.positions or range(1, len(order) + 1))
        looked_at = np.maximum(np.array(examination)[np.minimum(positions, len(examination)) - 1], _LEAST_LOOKED_AT)
        attracted = np.array(clicks.gains) / looked_at
        by_model = np.argsort(np.argsort([places[document] for document in order]))
        sums += (attracted * discounts[: len(order)]).sum(), (attracted * discounts[by_model]).sum()
    return about | dict(zip(("dcg_as_shown", "dcg_of_model"), (sums / seen.lists).tolist(), strict=True))


def _page(folder: str, figures: dict[str, Any], log: ClickLog, model: Any, plan: Any) -> str:
    """Write the page of `--report`; returns where it is."""
    events = [f"{name}={worth:g}" for name, worth in (log.events or {}).items()]
    settings = {"origin": SAYS[log.origin], **log.reading._asdict(), "events": events, "topic": log.topic}
    write = of_another_part("write_figures")
    return str(write(folder, figures=figures, settings=settings, model=model, names=plan.features))


def _print(report: dict[str, Any]) -> None:
    """The figures for people."""
    console = Console(highlight=False)
    console.print(
        f"[bold]{report['lists']:,}[/] lists of {report['documents']:,} documents, {report['clicked']:,} lists with a click"
        + (f", {report['with_gaps']:,} with gaps" if report["with_gaps"] else "")
        + (f"; {report['late']:,} events came after the window of their list" if report["late"] else "")
    )
    console.print(f"learned from {SAYS[report['origin']]}")
    if "examination" in report:
        console.print("examination of positions 1, 2, ...: " + ", ".join(f"{theta:.3f}" for theta in report["examination"]))
    if report.get("trust"):
        console.print(f"{report['trust']:.0%} of users click the first document because it is the first: this is no attraction")
    gains = table("gain of the first document, per list", "mean", bold=("mean",))
    test = report.get("test", {})
    for of, figures, by in (
        ("", report, "each list ranked by the model, then learned"),
        ("held out, ", test, "ranked by the model"),
    ):
        for key, what in (("logged_first", "as shown"), ("value_first", by)):
            if value := figures.get(key):
                gains.add_row(of + what, f"{value['mean']:.4f} ({value['lower']:.4f} to {value['upper']:.4f})")
    console.print(gains)
    console.print(
        "In brackets, 95 % intervals that are valid at any time"
        + ("; the model's from the lists that begin as it would (OffPolicyValue)." if "value_first" in report else ".")
    )
    if "dcg_of_model" in test:
        console.print(
            f"held out: DCG of what attracts {test['dcg_of_model']:.4f} as the model ranks, {test['dcg_as_shown']:.4f} as "
            "shown; an estimate, if the examination above is right"
        )
    console.print(report["verdict"] + (f"\nheld out: {test['verdict']}" if "verdict" in test else ""))
    for line in report["next"]:
        console.print(line)
    for key, said in (("report", "report in"), ("saved", "saved to")):
        if key in report:
            console.print(f"{said} [bold]{report[key]}[/]")
