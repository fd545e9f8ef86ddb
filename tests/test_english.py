"""`.ci/english`: what it finds, and what it leaves alone. The file is full of what it finds, so the script skips it."""

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "english"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="for a checkout")


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(SCRIPT))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Measured loss beside its bounds; the loss is that\nof the run.", ["beside", "that of"]),
        ("Said, not dropped: they are told. Or the service goes on.", ["Said, not dropped", "are told", "goes on"]),
        ("Folders of which the digests are right, whatever the length.", ["of which the", "whatever"]),
        ("It is `beside` in [a page](that-of.md).\n```sh\nbeside\n```\nWhere there is none, raise.", ["Where there is none"]),
        ("word " * 40 + "ends.", ["41 words in one sentence"]),
        ("word " * 39 + "ends. " + "word " * 39 + "ends.\n\n- " + "word " * 40, []),
        ("If some linear ranker separates the grades with margin gamma, total loss is at most 4/gamma².", []),
        ("A corrupted folder is either rejected or fully recovered. Names that cannot be saved raise in `learn_one`.", []),
    ],
)
def test_wordings_are_found_in_pages(script, text, words):
    assert [found for _, found, _ in script["found_in"]("page.md", text)] == words


def test_wordings_are_found_in_docstrings_comments_messages_and_names_of_tests(script):
    text = '''"""A module.

A model of its own.
"""
beside = anew = 1  # whatever
#: They are
#: told.

def test_names_are_told_apart():
    raise ValueError(f"{beside} goes on " "anew")
'''
    found = sorted((line, words) for line, words, _ in script["found_in"]("a.py", text))
    assert found == [(3, "of its own"), (5, "whatever"), (6, "are told"), (9, "are told"), (10, "anew"), (10, "goes on")]


@pytest.mark.skipif(shutil.which("git") is None, reason="for git")
def test_it_fails_on_a_finding_and_on_a_clean_room_that_is_still_listed(script, tmp_path):
    def lint():
        done = subprocess.run([sys.executable, SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.splitlines()

    (tmp_path / "page.md").write_text("# A page\n\nIt begins anew.\n")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(["git", "add", "page.md"], cwd=tmp_path, check=True)
    code, lines = lint()
    assert code == 1
    assert lines[0] == "page.md:3: 'anew': write again"
    assert [line.split(" is clean")[0] for line in lines[1:]] == sorted(script["UNFINISHED"])
