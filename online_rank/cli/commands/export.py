"""`online-rank export`."""

from typing import Annotated

import typer

from online_rank.cli.options import ModelFile, Out
from online_rank.export.table import TARGETS

__all__ = ["export"]


def export(
    model: ModelFile,
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help=f"{', '.join(TARGETS)}.")],
    out: Out = None,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the model in the target.")] = "online_rank",
    map_feature: Annotated[
        list[str] | None,
        typer.Option(
            "--map-feature",
            metavar="NAME=TARGET",
            help="Name of one feature in the target, if it differs; or a JSON file, {NAME: TARGET}, "
            "in which TARGET may be a query of the engine. May be repeated.",
        ),
    ] = None,
    features_out: Annotated[
        str | None, typer.Option("--features-out", metavar="FILE", help="With --to solr: file for its feature store.")
    ] = None,
    runs: Annotated[
        list[str] | None,
        typer.Option(
            "--run",
            metavar="FILE",
            help="TREC run of a retriever, once for each, for targets that fuse: the nearest weights are fitted to its queries "
            "where the target cannot compute the model, and changed rankings are counted.",
        ),
    ] = None,
) -> None:
    """Write a model for a search engine, an ONNX runtime, other libraries or a C compiler.

    A model that the target cannot compute is refused, with the reason and the targets that can.
    """
    from online_rank.cli.export import run
    from online_rank.cli.reading import warned_on_stderr

    with warned_on_stderr():
        run(model, to, out, name, map_feature or [], features_out, runs or [])
