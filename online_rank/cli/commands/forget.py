"""`online-rank forget`."""

from typing import Annotated

import typer

from online_rank.cli.declaring import value


def forget(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The --checkpoint folder of a service that does not run.")],
    id: Annotated[list[str] | None, value("ID", "A query; may be repeated.")] = None,
    context: Annotated[str | None, value("NAME=VALUE", "Queries with this context, and features made of it: user=u17.")] = None,
    doc: Annotated[str | None, value("ID", "A document: queries that have it, and feedback on it.")] = None,
) -> None:
    """Forget queries, and what was learned of their context, in the folder of a service.

    Nothing of it is left in the files: waiting queries, learned ids, the journal, names of features. A running service takes
    POST /forget.
    """
    from online_rank.cli.service import forget as forget_in

    if not id and context is None and doc is None:
        raise typer.BadParameter("give --id, --context or --doc")
    forget_in(folder, id or [], context, doc)
