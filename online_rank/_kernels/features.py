"""The verbs that touch features; all else in the kernels works on scores, grades and numbers.

The loop of an algorithm is written once. Each verb has a kernel for each kind of features, in the module of that kind: `dense`
(a matrix) and `sparse` (`Rows`). When the loop is compiled, the verb's first argument decides which is called (`_jit.Verb`).

To add a kind, write a module with named tuples of its documents and of what learns from them (`Learner`), which also has room
for an update, and with a function for each verb that the algorithms for it call, with the same arguments. Add the class of its
documents and the module to `KINDS`. Then call the entries of algorithms, such as `perceptron.learn`, with such documents and
weights; an algorithm that calls a verb which the module lacks does not compile for this kind.
`tests/kernels/test_features.py` compares kinds on the same documents.

For documents (m, d) of a query, credit c (m,), weights w and an update z, a `learner`

- `learner_of(X, w, average, state, n_kept, offsets)`: is made of arrays of an entry, which it requires to fit together; `state`
  is what an optimizer keeps of the features, `n_kept` rows, or None;
- `combine(documents, learner, c, other, spare)`: sets z = sum of c_i x_i, and a second update likewise by the credit `other`,
  unless it is None. Returns the number of features that z has, and both squared norms;
- `mix(learner, n, share)`: sets z = share z + (1 - share) other, of n features. Returns ||z||^2;
- `add(learner, n, step, square, decay, counters)`: adds step z to w, and to a lazy average. Returns whether w stays finite;
  otherwise nothing changes;
- `add_with_squares(learner, n, decay, counters)`: adds z, and z^2 to the sums of squared updates, which are its state;
- `count_average(learner, decay, counters)`: counts w in its average;
- `shorten(learner, longest)`: scales w down to a norm.

Scores come from `score_with_norms(documents, w, s)`, which returns the largest and the sum of the squared norms of documents,
and by the average, if any, `score_served(documents, learner, decay, counters, s)`. `n_documents(X)` is the number of
documents in a block, and `query_of(X, first, m)` the m documents from `first` on.

Gradient descent works on copies of the numbers that belong to a query's features:

- `take(learner, X, first, m)`: makes the copies for m documents, a `Taken`;
- `meet(learner, taken)`: shows the scale-free optimizer the ranges of the features, before it scores;
- `combine_differences(learner, taken, c)`: sets z = sum of c_i x_i, for c that sum to 0, to exactly 0 for a feature that is
  constant in the query: a scale-free optimizer would bet on its rounding errors. Returns ||z||^2;
- `keep(learner, taken, decay, counters)`: replaces the numbers by the copies, and counts w in its average.

Learning from clicks adds bets to the weights `beginning` that a ranker begins with:

- `take_drawn(learner, X, rows, first, beginning)`: does what `take` does for some documents, as a matrix (k, n), of the query
  that begins at `first`, with bets of 0. Also returns their initial weights, and what `score_with_norms` returns;
- `count_evidence(learner, taken, counters)`: updates `clicks.evidence` in the counters, where it is kept there.
"""

from typing import Any

import numpy as np

from online_rank._kernels import dense, sparse
from online_rank._kernels._jit import Verb

#: The module of each class that a verb may have as its first argument: of documents, and of `Learner` and `Taken`.
KINDS: dict[type, Any] = {np.ndarray: dense, sparse.Rows: sparse}
for _module in tuple(KINDS.values()):
    KINDS |= {getattr(_module, name): _module for name in ("Learner", "Taken") if hasattr(_module, name)}


def _verb(name: str) -> Verb:
    return Verb(name, {kind: getattr(module, name) for kind, module in KINDS.items() if hasattr(module, name)})


n_documents, query_of, learner_of = _verb("n_documents"), _verb("query_of"), _verb("learner_of")
score_with_norms, score_served = _verb("score_with_norms"), _verb("score_served")
combine, mix, add, add_with_squares = _verb("combine"), _verb("mix"), _verb("add"), _verb("add_with_squares")
count_average, shorten = _verb("count_average"), _verb("shorten")
take, meet, combine_differences, keep = _verb("take"), _verb("meet"), _verb("combine_differences"), _verb("keep")
take_drawn, count_evidence = _verb("take_drawn"), _verb("count_evidence")
