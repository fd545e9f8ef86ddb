"""The hedge over the members of a ranker."""

import numpy as np
import pytest

from online_rank import AdditiveRanker
from online_rank.storage.files import to_bytes


@pytest.mark.first(1)
@pytest.mark.parametrize("titles", [False, True])
def test_no_rounding_passes_for_the_scale_of_a_member(titles):
    """Where its terms cancelled, a scale of 10^-18 made the next scores 10^16, and words learned infinities."""
    largest = 0.0
    for seed in range(40):
        rng, model = np.random.default_rng(seed), AdditiveRanker(trees=0)
        for _ in range(12):
            x = {f"d{i}": {"price": float(rng.normal())} for i in range(5)}
            for document in x.values() if titles else ():
                document["title"] = " ".join(f"w{j}" for j in rng.integers(10**6, size=6))
            largest = max(largest, *map(abs, model.predict_one(x).values()))
            model.learn_one(x, {name: int(rng.integers(2)) for name in x})
        to_bytes(model)
    assert largest < 1e3
