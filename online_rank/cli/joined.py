"""Features of judged pairs, so that a table of grades can be trained on."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from online_rank.cli.click_log import ClickLog
from online_rank.cli.files import behind, histories_of
from online_rank.feedback import Judgements
from online_rank.feedback.judgements import Caps
from online_rank.query.forms import feature_dicts
from online_rank.support.progress import counted

#: What a table of grades with features has in front of these.
BEFORE = ("query", "document", "grade")


def joined(
    log: ClickLog, made: Judgements, last: bool, history: Sequence[str] | None, caps: Mapping[str, int], shown: bool | None
) -> tuple[list[str], dict[tuple[Hashable, Hashable], dict[str, Any]]]:
    """The names of features, and the features of each judged pair of a text and a document.

    With `last` they are the columns of the last row of the pair. The features of `history` are as they were when the pair was
    first shown, before any click that its grade counts; clicks count by the examination of their positions.

    Raises
    ------
    ValueError
        A feature is called as a column of the table.
    """
    from online_rank import AdditiveRanker

    histories, topic = histories_of(history, made.examination), str(log.topic)
    log = log._replace(reading=log.reading._replace(features=None), model=behind(histories, AdditiveRanker()))
    lists, capped = log.reader([topic, *caps]), Caps(caps)
    added = [name for step in histories for name in step.columns]
    names = [*(lists.plan.features if last else ()), *added]
    if taken := sorted({*BEFORE}.intersection(names)):
        raise ValueError(f"the column {taken[0]!r} would be a feature, and the table has its own: leave it out (--exclude)")
    wanted = {(one.query, one.document) for one in made.judged}
    found: dict[tuple[Hashable, Hashable], dict[str, Any]] = {}
    with counted(lists, "joining features", "lists", shown) as each:
        for x, clicks in each:
            text = x.context[0][topic]
            if text is None or not capped.counts(x.context[0]):
                continue
            values, before = dict(zip(x.ids, feature_dicts(x), strict=True)), [step.transform_one(x) for step in histories]
            for step in histories:
                step.learn_one(x, clicks)
            for document in clicks.impression.order:
                if (pair := (text, document)) not in wanted:
                    continue
                if pair not in found:
                    of_pair = zip(histories, before, strict=True)
                    found[pair] = {name: given[document][name] for step, given in of_pair for name in step.columns}
                if last:
                    found[pair].update((name, None if value != value else value) for name, value in values[document].items())
    return names, found
