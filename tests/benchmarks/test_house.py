from benchmarks.house import code_lines, options

TEXT = '''"""What it does.

More.
"""

import os  # A comment.

# Alone.
SHOWN = """a

b"""


def f(
    a,
):
    """Says so."""
    "And so."
    return a


class Empty:
    """Nothing."""
'''


def test_blank_lines_comments_and_docstrings_are_no_code():
    assert code_lines(TEXT) == 1 + 3 + 4 + 1
    assert code_lines("") == 0


def test_an_option_counts_for_each_command_that_takes_it():
    found = options()
    assert {"train", "rank", "serve"} <= {*found}
    assert all(len(names) == len({*names}) for names in found.values())
