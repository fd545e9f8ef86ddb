"""After any accepted request the state can be saved, loaded and gone on from; after any refused one all is as it was."""

import random

import pytest

from tests.campaigns.rule import sequence
from tests.models import SERVED


@pytest.mark.first(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SERVED)
def test_the_rule(name):
    result = sequence(SERVED[name], random.Random(name), 60, reopen=0.03)
    assert result.wrong == []
    assert result.counts["accepted"] > 10
    assert result.counts["refused"] > 2
