"""`online-rank forget`."""

from typing import Annotated

import typer

from online_rank.cli.options import value

__all__ = ["forget"]


def forget(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The --checkpoint folder of a service that does not run.")],
    id: Annotated[list[str] | None, value("ID", "A query; may be repeated.")] = None,
    user: Annotated[str | None, value("ID", "A user: queries and features with this id as a word of their own.")] = None,
) -> None:
    """Forget queries, and what is known of a user, in the folder of a service.

    Nothing of it is left in the files: waiting queries, learned ids, the journal, names of features. A running service takes
    POST /forget.
    """
    from online_rank.cli.service import forget as forget_in

    if not id and user is None:
        raise typer.BadParameter("give --id, --user, or both")
    forget_in(folder, id or [], user)
