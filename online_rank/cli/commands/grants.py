"""`online-rank grants`."""

from typing import Annotated

import typer


def grants(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="The role of the service in PostgreSQL.")],
    database: Annotated[str, typer.Option(metavar="NAME", help="The database.")] = "ranker",
) -> None:
    """Print the statements that give a role what a service needs in PostgreSQL, and nothing more.

    An administrator runs them once: online-rank grants ranker --database shop | psql shop
    """
    from online_rank.storage.rights import grants as statements

    typer.echo(statements(role, database))
