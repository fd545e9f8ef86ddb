"""`SwapRanker` of another checkout, taught by the same users with the same draws: run with that checkout as PYTHONPATH.

    PYTHONPATH=CHECKOUT python -P benchmarks/_clicks_before.py SLOTS

Reads pickled requests from standard input, one after the other: queries, chance, tables of the user, and where to stop. Answers
with the weights at each stop, and the NDCG of each list that was shown.
"""

import pickle
import sys

import numpy as np

import benchmarks._simulation as simulation


def main() -> None:
    """Answer until the input ends."""
    simulation.K = int(sys.argv[1])  # Kernels take it as a constant when they are compiled, at the first request.
    while True:
        try:
            queries, chance, click, leave, stops = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        d, n = queries[0].shape[1], len(chance[0])
        learner = simulation.Learner(np.zeros(d), np.zeros((4, d)), np.zeros((16, 10, 10)), np.array([0.1]))
        learner.state[3] = 0.1
        weights, quality, first = [], np.empty(n), 0
        both = simulation.Queries(*queries), simulation.Chance(*chance)
        for stop in stops:
            simulation.swap_rounds(*both, click, leave, True, 0.1, learner, first, stop, quality)
            first = stop
            weights.append(learner.w.copy())
        pickle.dump((weights, quality), sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
