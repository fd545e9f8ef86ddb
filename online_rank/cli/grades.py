"""`online-rank grades`: judgements from a log of clicks."""

import csv
import json
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from online_rank.cli.click_log import ClickLog, check_history, require_texts
from online_rank.cli.files import check_outputs
from online_rank.cli.joined import BEFORE, joined
from online_rank.cli.reading import look
from online_rank.feedback import Judgement, Judgements, judgements
from online_rank.feedback.judgements import LEAST
from online_rank.feedback.natural_variation import UndeterminedError
from online_rank.stream.values import arrow
from online_rank.support.progress import counted

#: Where pairs are thin.
_BETTER = "train --clicks moved learns from lists, and needs no pair twice: it is the better door for this log"


def run(
    log: ClickLog,
    out: str | None,
    caps: Mapping[str, str | None],
    as_json: bool,
    last: bool = False,
    history: Sequence[str] | None = None,
) -> None:
    """Write the judgements of a log to a table, and print what was counted and what was left out.

    `caps` has the cap on each key as the command line gives it: N, or COLUMN=N. With the features of the `last` row of a pair,
    or a `history`, the table has these and the grade, and no other figures: it is ready for training.

    Raises
    ------
    ValueError
        No column has the texts of queries, a cap is no number, there is no file to write to, the log does not determine the
        examination, or it has too few clicks for any judgement.
    """
    if log.topic is None:
        raise ValueError("--topic COLUMN names the text of the query, in which a document is judged")
    limits = dict(_cap(name, text) for name, text in caps.items() if text is not None)
    check_history(log, history)
    whole, log = log, log._replace(reading=log.reading._replace(features=[]))
    if log.reading.dry_run:
        look(log.reader([str(log.topic), *limits]))
    if out is None or not out.endswith((".csv", ".parquet")):
        raise ValueError(f"--out {out or 'FILE'}: give a name that ends in .csv or .parquet")
    check_outputs(log.files, out=out)
    read: Counter[str] = Counter()
    lists = _lists(log, [*limits], read, False if as_json else None)
    try:
        made = judgements(lists, examination=log.examination, caps=limits)
    except UndeterminedError as error:
        raise ValueError(f"{error}. {_BETTER}") from None
    if not made.judged:
        why = f": for all {made.scarce:,} pairs, fewer than {LEAST:g} click is expected. {_BETTER}" * bool(made.scarce)
        raise ValueError(f"{', '.join(log.files)}: no pair of a query and a document can be judged{why}")
    if made.scarce > len(made.judged):
        rare = f"{made.scarce:,} of {made.scarce + len(made.judged):,} pairs of a query and a document are too rare"
        warnings.warn(f"{rare}. {_BETTER}", UserWarning, stacklevel=2)
    judged = sorted(made.judged, key=lambda one: (str(one.query), -one.attraction))
    header: Sequence[str] = Judgement._fields
    rows: Sequence[Sequence[Any]] = judged
    if last or history:
        if last:
            whole, lines = whole.without_leaks()
            for line in lines:
                warnings.warn(line, UserWarning, stacklevel=2)
        names, of = joined(whole, made, last, history, limits, False if as_json else None)
        header = [*BEFORE, *names]
        rows = [(*(getattr(one, name) for name in BEFORE), *map(of[one[:2]].get, names)) for one in judged]
    _write(out, header, rows)
    report = {
        "files": list(log.files),
        "lists": made.lists,
        "without_topic": read["without a text"],
        "late": read["late"],
        "capped": made.capped,
        "uncapped": {name: read[f"without {name}"] for name in limits},
        "deep": made.deep,
        "examination": list(made.examination),
        "strength": made.strength,
        "judged": len(made.judged),
        "scarce": made.scarce,
        "grades": [sum(one.grade == grade for one in made.judged) for grade in range(len(made.cuts) + 1)],
        "cuts": list(made.cuts),
        "out": out,
    }
    if as_json:
        print(json.dumps(report))
    else:
        _print(report, made, log.examination is not None)


def _write(out: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Write a table, csv or parquet by its name."""
    if out.endswith(".parquet"):
        columns = dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))
        arrow("pyarrow.parquet").write_table(arrow().table(columns), out)
    else:
        with open(out, "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([header, *rows])


def _cap(name: str, text: str) -> tuple[str, int]:
    """The column of a key, and how many lists count for one of its values."""
    column, _, number = text.rpartition("=")
    if not number.isdecimal() or int(number) < 1:
        raise ValueError(f"--per-{name} is {text!r:.60}; it is a number of lists from 1 on, or COLUMN=N")
    return column or name, int(number)


def _lists(log: ClickLog, keys: list[str], read: Counter[str], shown: bool | None) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
    """The text of each query, the clicks, and the keys; `read` counts what is left out."""
    lists = log.reader([str(log.topic), *keys])
    with counted(lists, "counting clicks", "lists", shown) as each:
        for x, clicks in each:
            about = dict(x.context[0])
            text = about.pop(log.topic)
            if text is None:
                read["without a text"] += 1
            else:
                read.update(f"without {name}" for name, value in about.items() if value is None)
                yield text, clicks, about
    require_texts(log.topic, lists.n_lists, read["without a text"])
    read["late"] = lists.n_late


def _print(report: Mapping[str, Any], made: Judgements, given: bool) -> None:
    """The figures for people."""
    print(f"{report['lists']:,} lists counted")
    for count, what in (
        (report["without_topic"], "lists without a text"),
        (report["late"], "events after the window of their list"),
        *((count, f"lists beyond the cap on {name!r}") for name, count in report["capped"].items()),
        (report["deep"], f"documents below position {len(made.examination)}, whose examination is not known"),
    ):
        if count:
            print(f"  left out: {count:,} {what}")
    for name, count in report["uncapped"].items():
        if count:
            print(f"  not capped: {count:,} lists without a value of {name!r}")
    print(
        f"examination of positions 1, 2, ..., {'given' if given else 'from documents that moved'}: "
        + ", ".join(f"{theta:.3f}" for theta in made.examination)
    )
    print(
        f"{report['judged']:,} pairs of a query and a document judged; {report['scarce']:,} left out, for which fewer "
        f"than {LEAST:g} click is expected. Estimates begin with {made.strength:.1f} expected clicks of an average document."
    )
    for grade, (count, low, high) in enumerate(zip(report["grades"], (0.0, *made.cuts), (*made.cuts, None), strict=True)):
        until = f" to {high:.2f}" if high else " and more"
        print(f"  grade {grade}: {count:,} pairs, {low:.2f}{until} times the clicks of an average document at their positions")
    print(f"wrote {report['out']} ({os.path.getsize(report['out']):,} bytes)")
