"""`python -m online_rank` is the `online-rank` command."""

from online_rank.cli import main

main()
