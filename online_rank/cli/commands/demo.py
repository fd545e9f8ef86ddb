"""`online-rank demo`."""

from typing import Annotated

from online_rank.cli.declaring import flag, value


def demo(
    queries: Annotated[int, value("N", "Queries until the end or a change.", min=100)] = 6000,
    live: Annotated[bool, flag("--live", "Show a page until Ctrl-C instead; the truth changes every --queries.")] = False,
    port: Annotated[int, value("N", "Port of the page; 0: any free port.", min=0, max=65535)] = 0,
) -> None:
    """Watch a ranker learn from a stream of queries whose truth changes halfway."""
    if live:
        from online_rank.cli.live import run as run_live

        run_live(port, queries)
        return
    from online_rank.cli.demo import run

    run(queries)
