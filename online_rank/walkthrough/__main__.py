"""`python -m online_rank.walkthrough NAME`."""

import argparse
import importlib
import os
import sys

import online_rank.walkthrough


def main(arguments: list[str] | None = None) -> None:
    """Run a walk-through."""
    parser = argparse.ArgumentParser(
        prog="python -m online_rank.walkthrough",
        description=online_rank.walkthrough.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=["news", "clicks", "letor", "packages", "neural"])
    parser.add_argument("file", nargs="?", help="for letor and packages: a file of your own")
    given = parser.parse_args(arguments)
    takes_file = given.name in ("letor", "packages")
    if given.file is not None and not takes_file:
        parser.error(f"{given.name} takes no file")
    try:
        run = importlib.import_module(f"online_rank.walkthrough.{given.name}").run
        run(given.file) if takes_file else run()
    except BrokenPipeError:
        # The reader of our output is gone. Python must not flush its buffer to the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(128 + 13)
    except (OSError, ValueError, ImportError) as error:
        sys.exit(f"walkthrough {given.name}: {error}")


if __name__ == "__main__":
    main()
