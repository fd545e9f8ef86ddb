"""`online-rank demo`."""

from typing import Annotated

from online_rank.cli.declaring import flag


def demo(
    live: Annotated[bool, flag("--live", "Show a page until Ctrl-C instead; the truth changes again and again.")] = False,
) -> None:
    """Watch a ranker learn from a stream of queries whose truth changes halfway."""
    if live:
        from online_rank.cli.live import run as run_live

        run_live()
        return
    from online_rank.cli.demo import run

    run()
