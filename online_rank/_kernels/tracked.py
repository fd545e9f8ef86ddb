"""A block of queries that a perceptron learns under watch: comparators, and what would have been answered."""

from online_rank._kernels._jit import kernel
from online_rank._kernels.fits import require
from online_rank._kernels.perceptron import learn_block
from online_rank._kernels.watching import watch_of
from online_rank._kernels.workspace import longest_query


@kernel
def learn_tracked(X, y, offsets, weights, discounts, config, w, average, counters, rounds, served, all_forms, watched):
    """Learn from a block of queries as `perceptron.learn_any_form`, bit for bit, and measure by the weights before each update.

    Parameters
    ----------
    X, y, offsets, weights, discounts, config, w, average, counters, rounds, served, all_forms : as for
        `perceptron.learn_any_form`
    watched : a `watching.Watched` of comparators (c, d) and their losses `values` (q, c, 2), out; of the documents `asked`
        (n, d), before transformers learned their query, and their `answers` (n,), out, or (0,); of the sum `gained` (d,) of all
        updates, changed in place, what the weights would be without a cap of their norm, or (0,)

    Returns
    -------
    Number of queries learned, as `perceptron.learn_any_form`.
    """
    comparators, values, asked, answers, gained = watched
    c = comparators.shape[0]
    require(c == 0 or comparators.shape[1] == w.shape[0])
    require(values.shape[0] >= weights.shape[0] and values.shape[1] == c and values.shape[2] == 2)
    require(answers.shape[0] in (0, X.shape[0]) and asked.shape[0] >= answers.shape[0])
    require(answers.shape[0] == 0 or asked.shape[1] == w.shape[0])
    require(gained.shape[0] in (0, w.shape[0]))
    watch = watch_of(watched, longest_query(offsets))
    return learn_block(X, y, offsets, weights, discounts, config, w, average, counters, rounds, served, all_forms, watch)
