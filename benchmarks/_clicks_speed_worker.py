"""Times what `benchmarks.clicks --part speed` names, with the code of the checkout in PYTHONPATH: a task a line on stdin."""

import json
import sys
import time
from functools import cache

import numpy as np

from online_rank import ClickPerceptron, PlackettLuce, SwapRanker
from online_rank.stream.clicks import user

N, K = 200, 10
RANKERS = {
    "SwapRanker()": SwapRanker,
    "ClickPerceptron()": ClickPerceptron,
    "ClickPerceptron(credit='propensity')": lambda: ClickPerceptron(
        credit="propensity", examination=tuple(1.0 / p for p in range(1, K + 1))
    ),
}


@cache
def queries(m, d):
    """Queries, lists drawn for them, and the clicks on these."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(N, m, d)), rng.choice(3, (N, m), p=(0.7, 0.2, 0.1))
    policy, who = PlackettLuce(K, seed=3), user("informational", seed=4)
    clicks = [who.clicks(policy.show(np.zeros(m), t), y[t], t) for t in range(N)]
    return list(X), clicks, X.reshape(N * m, d), np.repeat(np.arange(N), m)


@cache
def taught(name, m, d):
    """A ranker that has met all of them once."""
    X, clicks, _, _ = queries(m, d)
    model = RANKERS[name]()
    for x, y in zip(X, clicks):  # noqa: B905
        model.learn_one(x, y)
    return model


def done(what, name, m, d):
    """Seconds of processor time for all queries once."""
    X, clicks, stacked, qid = queries(m, d)
    model = taught(name, m, d)
    start = time.process_time()
    if what == "learn_many":
        model.learn_many(stacked, clicks, qid)
    elif what == "learn_one":
        for x, y in zip(X, clicks):  # noqa: B905
            model.learn_one(x, y)
    else:
        for x in X:
            model.show_one(x)
    return time.process_time() - start


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(done(*json.loads(line))), flush=True)
