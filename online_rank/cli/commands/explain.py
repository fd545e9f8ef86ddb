"""`online-rank explain`."""

from typing import Annotated

from online_rank.cli.declaring import value
from online_rank.cli.options import FILE, Json, ModelFile, TrecRuns
from online_rank.cli.reading import ToExplain, warned_on_stderr


def explain(
    model: ModelFile,
    reading: ToExplain,
    id: Annotated[str, value("ID", "The query.")],
    file: Annotated[str | None, FILE] = None,
    runs: TrecRuns = None,
    a: Annotated[str | None, value("DOCUMENT", "Explain why this document (default: the best)")] = None,
    b: Annotated[str | None, value("DOCUMENT", "ranks above this one (default: the second).")] = None,
    json: Json = False,
) -> None:
    """Explain why one document ranks above another: the contribution of each feature to the difference of their scores."""
    from online_rank.cli.explain import explain as run
    from online_rank.cli.runs import one_of

    with warned_on_stderr():
        run(model, *one_of(file, runs), id, (a, b), reading, json)
