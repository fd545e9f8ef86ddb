"""`online-rank evaluate`."""

from enum import StrEnum
from typing import Annotated

import typer

from online_rank.cli.options import Files, Grades, Json, ModelFile, Queries, flag, shown, value
from online_rank.measures.table import listed

__all__ = ["evaluate"]

#: How to count a query without relevant documents.
NoRelevant = StrEnum("NoRelevant", ["skip", "zero"])


def evaluate(
    model: ModelFile,
    files: Files,
    reading: Queries,
    grades: Grades,
    metric: Annotated[
        list[str] | None,
        value("NAME", f"Metrics: {shown(listed())}; may be repeated. [dim]Without it: ndcg@10, ndcg, map, mrr.[/dim]"),
    ] = None,
    no_relevant: Annotated[
        NoRelevant, value(None, "Queries without relevant documents are left out of the mean, or count as 0.")
    ] = NoRelevant.skip,
    trec: Annotated[
        bool, flag("--trec", "MODEL is a TREC run and FILE its judgements (qrels); ties and averages as in trec_eval.")
    ] = False,
    complete: Annotated[
        bool, flag("--complete", "With --trec, judged queries that are not in the run count as 0 (trec_eval -c).")
    ] = False,
    json: Json = False,
) -> None:
    """Measure a model on files, without learning from them; or a TREC run against judgements."""
    from online_rank.cli.evaluate import DEFAULT_METRICS, Measuring, evaluate_run
    from online_rank.cli.evaluate import evaluate as evaluate_files
    from online_rank.cli.reading import warned_on_stderr

    measuring = Measuring(metric or DEFAULT_METRICS, no_relevant)
    if complete and not trec:
        raise typer.BadParameter("--complete is for --trec")
    if trec and len(files) != 1:
        raise typer.BadParameter("--trec takes a run and one file of judgements")
    with warned_on_stderr():
        if trec:
            evaluate_run(model, files[0], measuring, json, complete)
        else:
            evaluate_files(model, files, measuring, reading.reading(grades), json)
