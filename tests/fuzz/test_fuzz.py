"""Inputs to begin fuzzing with, among them all that once failed."""

import pytest

from tests.fuzz.targets import CORPUS, TARGETS, feed


@pytest.mark.parametrize("name", TARGETS)
def test_what_once_failed_is_answered_as_readers_say(name):
    seeds = sorted((CORPUS / name).iterdir())
    assert seeds
    for seed in seeds:
        try:
            feed(name, seed.read_bytes())
        except Exception as error:
            raise AssertionError(f"{seed.name}: {error!r}") from error


def test_each_folder_of_the_corpus_has_a_target():
    assert {path.name for path in CORPUS.iterdir()} == {*TARGETS}
