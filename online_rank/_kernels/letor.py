"""Parse LETOR / svmlight text: one pass over the bytes, which lists the features of all lines one after the other.

A line is ``grade qid:id feature:value ... # comment``. Every line must end in a newline inside the buffer: the newline is the
sentinel that stops every inner loop, so no loop checks the buffer's end. What is no plain number is left to the caller.
"""

import numpy as np

from online_rank._kernels._jit import kernel, leaf
from online_rank._kernels.fits import require
from online_rank._kernels.tokens import COLON, NEWLINE, NUMBER, SHARP, ZERO, byte, ends_token, number, skip_space

# Columns of `meta`: facts about a row. Positions are indices into the buffer.
# FRESH: 1 where the qid differs from the row before (or no row is before in this call).
# FAULT: the place of what is not feature:value, or -1.
LINE, PLACE, GRADE, QID, QID_LENGTH, FRESH, COMMENT, COMMENT_LENGTH, FAULT = range(9)
META_COLUMNS = 9

# Columns of `left`: the row and the entry (-1: the grade) of a token, and its place.
LEFT_ROW, LEFT_ENTRY, LEFT_PLACE = range(3)

_LARGEST_ID = 10**12  # larger feature ids are treated as equal


@leaf
def _starts_qid(buffer, at):
    """Whether ``qid:`` is at `at`."""
    if byte(buffer, at) != ord("q") or byte(buffer, at + 1) != ord("i") or byte(buffer, at + 2) != ord("d"):
        return False
    return byte(buffer, at + 3) == COLON


@leaf
def _token_end(buffer, at):
    """The end of the token at `at`."""
    while not ends_token(byte(buffer, at)):
        at += 1
    return at


@leaf
def _same_bytes(buffer, first, second, length):
    """Whether the `length` bytes at two places are equal."""
    for k in range(length):
        if byte(buffer, first + k) != byte(buffer, second + k):
            return False
    return True


@leaf
def _read_id(buffer, at):
    """Read ``id:`` of a feature: (its id, place after the colon, or -1 if that is not an id)."""
    feature = np.int64(0)
    end = at
    digit = np.int64(byte(buffer, end)) - ZERO
    while 0 <= digit <= 9:
        if feature < _LARGEST_ID:
            feature = feature * 10 + digit
        end += 1
        digit = np.int64(byte(buffer, end)) - ZERO
    if end == at or byte(buffer, end) != COLON:
        return feature, np.int64(-1)
    return feature, end + 1


@leaf
def _read_number(buffer, at, row, entry, left, n_left):
    """Read the number of a token: (value, its end, tokens left to the caller); NaN if it is left."""
    value, end, kind = number(buffer, at)
    if kind == NUMBER and ends_token(byte(buffer, end)):
        return value, end, n_left
    left[n_left, LEFT_ROW] = row
    left[n_left, LEFT_ENTRY] = entry
    left[n_left, LEFT_PLACE] = at
    return np.nan, _token_end(buffer, at), n_left + 1


@leaf
def _skip_line(buffer, at):
    """The place behind the newline that ends the line at `at`."""
    while byte(buffer, at) != NEWLINE:
        at += 1
    return at + 1


@kernel
def parse_rows(buffer, line, ids, values, starts, grades, meta, left):
    """Parse lines of text.

    Parameters
    ----------
    buffer : (n,) uint8
        Text that ends in a newline.
    line : int
        The number of its first line.
    ids, values : (entries,) int64, float64
        Receive the ids and the values of features, row after row. There is room for one in every three bytes of text.
    starts : (rows + 1,) int64
        Receives where the entries of each row begin, and where the last ones end.
    grades : (rows,) float64
        Receives the grades.
    meta : (rows, META_COLUMNS) int64
        Receives facts about rows.
    left : (entries + rows, 3) int64
        Receives the tokens whose value the caller must find: words, and numbers that need exact conversion.

    Returns
    -------
    tuple of int
        (rows, tokens in `left`, lowest id, highest id, whether the ids of every row ascend).
    """
    room = min(ids.shape[0], values.shape[0])
    require(buffer.shape[0] == 0 or byte(buffer, buffer.shape[0] - 1) == NEWLINE)
    require(3 * room >= buffer.shape[0] and left.shape[0] >= room + grades.shape[0] and left.shape[1] == 3)
    require(starts.shape[0] > grades.shape[0] <= meta.shape[0] and meta.shape[1] == META_COLUMNS)
    at = row = entry = n_left = previous = np.int64(0)
    previous_length = highest = np.int64(-1)
    lowest = np.int64(_LARGEST_ID)
    ascending = True
    starts[0] = 0
    while at < buffer.shape[0]:
        begin = at
        at = skip_space(buffer, at)
        if byte(buffer, at) == NEWLINE or byte(buffer, at) == SHARP:  # a blank line, or only a comment
            at = _skip_line(buffer, at)
            line += 1
            continue
        require(row < grades.shape[0])
        meta[row, LINE] = line
        meta[row, PLACE] = begin
        meta[row, GRADE] = at
        grades[row], at, n_left = _read_number(buffer, at, row, -1, left, n_left)
        at = qid = skip_space(buffer, at)
        length = np.int64(-1)
        if _starts_qid(buffer, at):
            qid = at + 4
            at = _token_end(buffer, qid)
            length = at - qid
        meta[row, QID] = qid
        meta[row, QID_LENGTH] = length
        meta[row, FRESH] = row == 0 or length != previous_length or not _same_bytes(buffer, qid, previous, length)
        previous = qid
        previous_length = length
        meta[row, FAULT] = -1
        last = np.int64(-1)
        at = skip_space(buffer, at)
        while byte(buffer, at) != NEWLINE and byte(buffer, at) != SHARP:
            feature, token = _read_id(buffer, at)
            if token < 0:
                meta[row, FAULT] = at
                break
            ids[entry] = feature
            values[entry], at, n_left = _read_number(buffer, token, row, entry, left, n_left)
            entry += 1
            ascending &= feature > last
            last = feature
            lowest = min(lowest, feature)
            highest = max(highest, feature)
            at = skip_space(buffer, at)
        meta[row, COMMENT] = at
        at = _skip_line(buffer, at)
        meta[row, COMMENT_LENGTH] = at - 1 - meta[row, COMMENT]
        row += 1
        starts[row] = entry
        line += 1
    return row, n_left, lowest, highest, ascending


@kernel
def fill_rows(starts, ids, values, first, X):
    """Write the entries of rows into X (m, d), which is zero: row i has the entries ``starts[i]:starts[i + 1]``.

    The feature with the id `first` is column 0.
    """
    require(starts.shape[0] == X.shape[0] + 1 and starts[X.shape[0]] <= min(ids.shape[0], values.shape[0]))
    for row in range(X.shape[0]):
        for entry in range(starts[row], starts[row + 1]):
            column = ids[entry] - first
            require(0 <= column < X.shape[1])
            X[row, column] = values[entry]
