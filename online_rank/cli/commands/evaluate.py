"""`online-rank evaluate`."""

from typing import Annotated

import typer

from online_rank.cli.declaring import flag
from online_rank.cli.options import Files, Json, Measuring, ModelFile
from online_rank.cli.reading import ToMeasure, look_at_runs, warned_on_stderr


def evaluate(
    model: ModelFile,
    files: Files,
    reading: ToMeasure,
    measuring: Measuring,
    trec: Annotated[
        bool, flag("--trec", "MODEL is a TREC run and FILE its judgements (qrels); ties and averages as in trec_eval.")
    ] = False,
    complete: Annotated[
        bool, flag("--complete", "With --trec, judged queries that are not in the run count as 0 (trec_eval -c).")
    ] = False,
    json: Json = False,
) -> None:
    """Measure a model on files, without learning from them; or a TREC run against judgements."""
    from online_rank.cli.evaluate import evaluate as evaluate_files
    from online_rank.cli.evaluate import evaluate_run

    if complete and not trec:
        raise typer.BadParameter("--complete is for --trec")
    if trec and len(files) != 1:
        raise typer.BadParameter("--trec takes a run and one file of judgements")
    with warned_on_stderr():
        if trec and reading.dry_run:
            look_at_runs([model], files[0])
        if trec:
            evaluate_run(model, files[0], measuring, json, complete)
        else:
            evaluate_files(model, files, measuring, reading, json)
