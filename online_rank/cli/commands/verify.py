"""`online-rank verify`."""

from typing import Annotated

import typer

from online_rank.cli.declaring import value


def verify(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What export --out wrote.", show_default=False)],
    engine: Annotated[
        str | None,
        value(
            "URL",
            "Address of the running engine: http://localhost:9200, http://localhost:8983/solr/COLLECTION, "
            "http://localhost:8080/NAMESPACE/DOCUMENT_TYPE, postgresql://host/database, or a file of DuckDB. "
            "Left out for ONNX, C, LightGBM, XGBoost and DuckDB in memory, which run here.",
        ),
    ] = None,
    probes: Annotated[
        str | None, value("FILE", "The probes; the default is FILE.probes.json, where export wrote them.")
    ] = None,
    answers: Annotated[
        str | None, value("FILE", "For an engine that cannot be called from here: its scores, {id of the probe: score}.")
    ] = None,
) -> None:
    """Send the probes of an exported model to a running engine: are all scores equal, or which documents differ, and why.

    The exit code is 1 if a document differs. Documents are sent to an index, a table or a document type of the engine, and
    deleted afterwards.
    """
    from online_rank.cli.verify import run

    run(file, engine, probes, answers)
