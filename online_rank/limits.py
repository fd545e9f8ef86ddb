"""Limits on input, declared once. Every later step can handle all input within them.

The service, schemas, files, tables and constructors read these declarations. So any value that is accepted can be learned,
written to a file or a table, and read back.

.. list-table::
   :header-rows: 1

   * - what
     - limit
     - who sets it
   * - integers
     - 64 bits, signed
     - tables, kernels
   * - counts
     - 0 to 2^53
     - float64 holds each of them
   * - ids of queries
     - strings of at most 1,000 characters; integers
     - messages repeat them
   * - names of features and documents
     - strings, numbers, None, and tuples of these
     - files
   * - numbers of constructors
     - 0, or 10^-100 to 10^100 in size
     - models multiply and square them
   * - numbers for river's transformers
     - at most 10^70 in size
     - their variances are squares of numbers, added up
   * - features of a model
     - 2^24
     - kernels count columns with 32 bits
   * - dimensions of a vector
     - 4,096
     - a learner keeps a matrix between two of them
   * - weights of queries, gains of clicks
     - 0, or at least 10^-75
     - learning takes squares of their products
   * - columns of a table, names in JSON lines
     - 65,536; names of 1,000 characters at most
     - each is read in each block of rows
   * - cells of a table made of JSON
     - 256 for each value: names that change from row to row are no columns
     - memory, time
   * - a text in a table
     - 2^22 bytes
     - memory
   * - depth of a value in a file
     - 64 levels
     - it is read by recursion
   * - a request
     - 8 levels; 5,000 documents, since some models compare all pairs
     - the time of the others
   * - a request, for a model that needs arrays
     - documents times features, of both: `MAX_CELLS` and some for each byte
     - memory
   * - new features of a request
     - numbers added to the state of models: `MAX_GROWTH` and some for each byte
     - memory
   * - a request with grades, for a model that draws rankings
     - documents times documents, or features: the same
     - memory, time
"""

from typing import Any

import numpy as np

__all__ = [
    "ALWAYS_DOCUMENTS",
    "CELLS_A_BYTE",
    "FORMAT_VERSION",
    "INT64_HIGH",
    "INT64_LOW",
    "MAX_CELLS",
    "MAX_COUNT",
    "MAX_DEPTH",
    "MAX_DIMENSIONS",
    "MAX_DOCUMENTS",
    "MAX_FEATURES",
    "MAX_GROWTH",
    "MAX_ID_LENGTH",
    "MAX_KNOWN_CELLS",
    "MAX_REQUEST_DEPTH",
    "is_id",
    "is_integer",
    "is_name",
]

#: Version of all stored formats: model files, folders with the state of a service, impressions that users keep. The library
#: reads this version and all earlier ones. A setting missing from an older file takes the constructor's default; missing state
#: takes the attribute of the class.
FORMAT_VERSION = 1

#: The integers of 64 bits.
INT64_LOW, INT64_HIGH = -(2**63), 2**63 - 1

#: Largest count.
MAX_COUNT = 2**53

#: Least weight of a query, and gain of a click, above 0.
LEAST_WEIGHT = 1e-75

#: The size of a number that a constructor takes, unless it is 0.
LEAST_SETTING, LARGEST_SETTING = 1e-100, 1e100

#: Most characters of a query's id.
MAX_ID_LENGTH = 1000

#: Most features that one query, or one model over its life, may have.
MAX_FEATURES = 1 << 24

#: Most dimensions of a vector: a matrix between two such vectors takes 64 MB, and its average as much.
MAX_DIMENSIONS = 1 << 12

#: Most columns of a table, and most characters of their names.
MAX_COLUMNS, MAX_NAME_LENGTH = 1 << 16, 1000

#: Most cells, of rows and columns, that JSON may have for each of its values, if these are more than `FREE_CELLS`.
MAX_CELLS_A_VALUE, FREE_CELLS = 1 << 8, 1 << 22

#: Most bytes of a text in a table: an id, a category, words.
MAX_TEXT = 1 << 22

#: Most levels of a value in a file.
MAX_DEPTH = 64

#: Largest absolute value passed to a transformer of river.
MAX_LIFTED = 1e70

#: Most levels of a request: features stand on the third.
MAX_REQUEST_DEPTH = 8

#: Most documents of a request.
MAX_DOCUMENTS = 5000

#: Most cells of a dense array made of a request's sparse documents: this many for any request, plus some for each of its bytes.
#: At most two such arrays exist at a time, so they take 2 MiB plus 32 bytes for each byte.
MAX_CELLS = 1 << 17
CELLS_A_BYTE = 2
#: The number of documents that may have an array of all features that the model knows, up to a size, in any request.
ALWAYS_DOCUMENTS = 50
MAX_KNOWN_CELLS = 1 << 20

#: Most numbers that the new features of a request may add to the state of the models: this many for any request, plus
#: `CELLS_A_BYTE` for each of its bytes. A query may so bring a thousand features to a model that keeps a matrix of them.
MAX_GROWTH = 1 << 21


def is_integer(value: Any, low: int = INT64_LOW, high: int = INT64_HIGH) -> bool:
    """Whether a value is an integer from `low` to `high`; True and False do not count as integers.

    Examples
    --------
    >>> is_integer(-(2**63)), is_integer(2**63), is_integer(True)
    (True, False, False)
    """
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(low <= value <= high)


def is_id(value: Any) -> bool:
    """Whether a value may be the id of a query.

    Examples
    --------
    >>> is_id("q1"), is_id(-(2**63)), is_id(1.0), is_id("x" * 1001)
    (True, True, False, False)
    """
    if type(value) is str:
        return len(value) <= MAX_ID_LENGTH
    return type(value) is int and INT64_LOW <= value <= INT64_HIGH


def is_name(value: Any) -> bool:
    """Whether a value may be the name of a feature or a document, or another key that a file holds.

    Examples
    --------
    >>> is_name("clicks"), is_name(("title", 3)), is_name(None), is_name(2**64), is_name(frozenset())
    (True, True, True, False, False)
    """
    if type(value) in (str, float, bool) or value is None:
        return True
    if isinstance(value, np.generic):
        return value.dtype.kind in "biuf"
    if type(value) is tuple:
        return all(map(is_name, value))
    return type(value) is int and INT64_LOW <= value <= INT64_HIGH
