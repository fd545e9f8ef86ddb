"""`online-rank repair`."""

from typing import Annotated

import typer


def repair(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The --checkpoint folder of a service that does not run.")],
) -> None:
    """Set times that lie ahead of the clock back to it, in the folder of a service.

    A clock that was wrong leaves them: until the clock has reached them, feedback is late, and models do not fade. GET /readyz
    reports them. Look at the clock of this machine first.
    """
    from online_rank.cli.service import repair as repair_in

    repair_in(folder)
