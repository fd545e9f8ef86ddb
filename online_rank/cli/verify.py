"""`online-rank verify`: an engine's scores of probes."""

import typer

from online_rank.cli.reading import check_files
from online_rank.export.verifying.asking import verify


def run(file: str, engine: str | None, probes: str | None, answers: str | None) -> None:
    """Print the verdict on an engine; exit with 1 if a document differs."""
    check_files([file, *(path for path in (probes, answers) if path is not None)])
    try:
        verdict = verify(file, engine=engine, probes=probes, answers=answers)
    except RuntimeError as error:
        raise ValueError(str(error)) from None
    print(verdict.in_words())
    if not verdict.equal:
        raise typer.Exit(1)
