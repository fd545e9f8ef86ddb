"""Constants shared by kernels and the rest of the package. They are here so that a change recompiles the kernels."""

from typing import NamedTuple

#: Largest accepted relevance grade: sums of the gains 2^grade - 1 stay finite for more than 10^7 documents.
MAX_GRADE = 1000

# Metrics; `online_rank.measures.table` says which of them rankers learn for.
NDCG, AP, LINEAR_NDCG, RECIPROCAL_RANK, PRECISION, ERR, PAIRWISE_ACCURACY, DCG, RECALL, HIT_RATE, AP_ATTAINABLE = range(11)

# Tie policies: the sign by which the grade decides among equal scores; IGNORED never reaches a kernel.
EXPECTED, OPTIMISTIC, PESSIMISTIC, IGNORED = 0, 1, -1, 2

# Mass of an update.
LOSS, ROOT = range(2)
MASSES = {"loss": LOSS, "sqrt": ROOT}


class Credit(NamedTuple):
    """The declaration of a credit; its kernels are in `credit`.

    Attributes
    ----------
    code : its number in kernels
    mass, relative_margin : defaults
    """

    code: int
    mass: str
    relative_margin: float


ARGMAX, SPREAD, SORT, ADAPTIVE = range(4)
CREDITS = {
    "argmax": Credit(ARGMAX, "loss", 0.0),
    "spread": Credit(SPREAD, "loss", 0.0),
    # Credits that spread an update over many documents.
    "sort": Credit(SORT, "sqrt", 0.3),
    "adaptive": Credit(ADAPTIVE, "sqrt", 0.3),
}

# Indices of a perceptron's counters: effective number of averaged weight vectors; rounds since the reference of a lazy average
# (`averages`); documents learned from; sums of ||z||^2 and of V; and for `adaptive` the sums of the ||z||^2 of `spread` and of
# `sort` at mass 1; and the sum of ||z||^2 + 2 tau V, for the norm cap.
AVERAGED, SINCE_REFERENCE, DOCUMENTS, SQUARES, MASS, SPREAD_SQUARES, SORT_SQUARES, CAPPED_SQUARES = range(8)
N_COUNTERS = 8
# Counters of gradient descent: the first two of these, and its steps.
STEPS = 2
N_GRADIENT_COUNTERS = 3

# Order of positions within one grade, in `WITHIN_GRADE`'s order.
MEAN, DOCUMENT, TIGHT = range(3)
WITHIN_GRADE = ("mean", "document", "tight")

# Surrogates, in `SURROGATES`'s order.
SLAM, HINGE, LOGISTIC, SQUARED, LISTNET, LAMBDARANK = range(6)
SURROGATES = ("slam", "hinge", "logistic", "squared", "listnet", "lambdarank")
# A loss of the user's own: a function at an address that is valid in this process alone.
OWN_SURROGATE = 6

# Optimizers, in `OPTIMIZERS`'s order, and how many numbers each keeps for a parameter.
SGD, ADAGRAD, ADAM, SCALE_FREE = range(4)
OPTIMIZERS = ("sgd", "adagrad", "adam", "scale_free")
OPTIMIZER_ROWS = (0, 1, 2, 4)

# Activations of a network, in `ACTIVATIONS`'s order.
TANH, RELU = range(2)
ACTIVATIONS = ("tanh", "relu")

# Kernel functions k(x, z), in `KERNELS`'s order.
RBF, POLYNOMIAL = range(2)
KERNELS = ("rbf", "polynomial")

# How the pairs of a shown ranking are weighted: by the distribution it was drawn from, or all equally. From 0 on: only
# neighbours
# count, in pairs that begin there (FairPairs).
PLACKETT_LUCE, ALL_PAIRS = -1, -2
