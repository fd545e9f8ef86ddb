"""`online-rank backup` and `online-rank restore`."""

from typing import Annotated

import typer


def backup(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The --checkpoint folder of a service, which may run.")],
    file: Annotated[str, typer.Argument(metavar="FILE", help="The copy; an older one is replaced at the end.")],
) -> None:
    """Copy the state of a service to one file, while it runs: model, waiting queries, learned ids, the journal.

    The copy is read in full before it counts. With --key each key has its folder: DIR/north.
    """
    from online_rank.storage.backup import back_up

    print(f"backed up, with {back_up(folder, file):,} changes: {file}")


def restore(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file that [bold]backup[/bold] wrote.")],
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The new --checkpoint folder; it has no state yet.")],
) -> None:
    """Write the state in a backup to a folder, from which a service then continues."""
    from online_rank.storage.backup import restore as restore_to

    print(f"restored, with {restore_to(file, folder):,} changes: {folder}")
