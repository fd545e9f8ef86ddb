"""`online-rank export`."""

from typing import Annotated

from online_rank.cli.declaring import value
from online_rank.cli.options import ModelFile, Out
from online_rank.cli.reading import Reading, warned_on_stderr
from online_rank.export.table import TARGETS


def export(
    model: ModelFile,
    to: Annotated[str | None, value("FORMAT", f"{', '.join(TARGETS)}.")] = None,
    out: Out = None,
    name: Annotated[str, value("NAME", "Name of the model in the target.")] = "online_rank",
    matrix: Annotated[
        str | None,
        value(
            "NAME",
            "Write the matrix of this vector alone, which maps the vector of a query to the one to search an index with; "
            "formats are c, duckdb, npy, onnx and pgvector.",
        ),
    ] = None,
    pairs: Annotated[
        int | None,
        value("N", "Print what the N strongest pairs of features add to a score, as tables; with --out FILE.json, as JSON."),
    ] = None,
    map_feature: Annotated[
        list[str] | None,
        value(
            "NAME=TARGET",
            "Name of one feature in the target, if it differs; or a JSON file, {NAME: TARGET}, "
            "in which TARGET may be a query of the engine. May be repeated.",
        ),
    ] = None,
    features_out: Annotated[str | None, value("FILE", "With --to solr: file for its feature store.")] = None,
    probes: Annotated[
        str | None,
        value("FILE", "File for documents, with their scores, to ask the engine with verify; otherwise OUT.probes.json."),
    ] = None,
    check: Annotated[
        str | None, value("FILE", "Graded queries: print how many are ranked differently from the model, and NDCG@10 of both.")
    ] = None,
    reading: Annotated[Reading, ("query", "grade", "dry_run")] = Reading(),  # noqa: B008
    runs: Annotated[
        list[str] | None,
        value(
            "RUN",
            "TREC run of a retriever, once for each, for targets that fuse: the nearest weights are fitted to its queries "
            "where the target cannot compute the model, and changed rankings are counted.",
            "--run",
        ),
    ] = None,
) -> None:
    """Write a model for a search engine, an ONNX runtime, other libraries or a C compiler.

    A model that the target cannot compute is refused, with the reason and the targets that can.
    """
    from online_rank.cli.export import check_on, look_at_files, run, write_matrix, write_pairs

    with warned_on_stderr():
        if pairs is not None:
            write_pairs(model, pairs, out)
            return
        if to is None:
            raise ValueError(f"Missing option '--to': one of {', '.join(TARGETS)}; or --pairs N")
        if matrix is not None:
            write_matrix(model, to, out, name, matrix)
            return
        if reading.dry_run:
            look_at_files(model, check, reading, runs or [])
        run(model, to, out, name, map_feature or [], features_out, runs or [], probes)
        if check is not None:
            check_on(model, to, map_feature or [], check, reading)
