"""Parse LETOR / svmlight text: one pass over the bytes, rows written straight into a dense matrix, or into sparse rows.

`parse_rows` reads whole lines of ``grade qid:id feature:value ... # comment``. Every line must end in a newline inside the
buffer: the newline is the sentinel that stops every inner loop, so no loop checks the buffer's end. An error in a line is
reported by one of the codes below and the position of the token; the caller writes the message.
"""

import numpy as np

from online_rank._kernels._jit import inner, kernel, leaf
from online_rank._kernels.fits import require
from online_rank._kernels.order import sort_descending
from online_rank._kernels.tokens import (
    COLON,
    MINUS,
    NEWLINE,
    NO_NUMBER,
    PLUS,
    SHARP,
    SLOW,
    ZERO,
    byte,
    ends_token,
    number,
    skip_space,
)

# Reasons for which the kernel stopped.
DONE = 0
FULL = 1  # no room for another row
BAD_GRADE = 2
GRADE_RANGE = 3
NO_QID = 4
UNEXPECTED_QID = 5
EMPTY_QID = 6
BAD_FEATURE = 7
FEATURE_ZERO = 8
FEATURE_RANGE = 9
FEATURE_TWICE = 10
BAD_VALUE = 11
NOT_FINITE = 12
NULL_VALUE = 13
SLOW_ROW = 14  # not an error: the caller must convert the numbers in `slow`, and then accept the row
_DESCENDING = 15  # ids of features do not ascend: read the row again

# Columns of `meta`: further facts about a row. Positions are indices into the buffer.
# FRESH: 1 where the qid is not that of the row before (or there is none before in this call). SKIPPED is the caller's.
LINE, PLACE, ROW, QID, QID_LENGTH, FRESH, COMMENT, COMMENT_LENGTH, SKIPPED = range(9)
META_COLUMNS = 9

# Whether rows have a qid: unknown before the first row; all must; none may; irrelevant.
QID_UNKNOWN, QID_REQUIRED, QID_ABSENT, QID_IGNORED = range(4)

_MAX_GRADE = 2.0**53
_LARGEST_ID = 10**12  # larger feature ids are treated as equal


@leaf
def _starts_qid(buffer, at):
    """Whether ``qid:`` is at `at`."""
    if byte(buffer, at) != ord("q") or byte(buffer, at + 1) != ord("i") or byte(buffer, at + 2) != ord("d"):
        return False
    return byte(buffer, at + 3) == COLON


@leaf
def _not_a_number(buffer, at):
    """The code for the value at `at`, which is not a number: NULL, an infinity or NaN, or something else."""
    c = byte(buffer, at)
    if c == ord("N") and byte(buffer, at + 1) == ord("U") and byte(buffer, at + 2) == ord("L"):
        return NULL_VALUE if byte(buffer, at + 3) == ord("L") else BAD_VALUE
    if c in (MINUS, PLUS):
        at += 1
    c = byte(buffer, at) | 32  # small letters differ from capitals in this bit
    if c == ord("n") and byte(buffer, at + 1) | 32 == ord("a") and byte(buffer, at + 2) | 32 == ord("n"):
        return NOT_FINITE
    if c == ord("i") and byte(buffer, at + 1) | 32 == ord("n") and byte(buffer, at + 2) | 32 == ord("f"):
        return NOT_FINITE
    return BAD_VALUE


@leaf
def _read_grade(buffer, at, lowest, slow):
    """Read a grade: (code, grade, place after it, entries of `slow` that it takes)."""
    grade, end, kind = number(buffer, at)
    if kind == NO_NUMBER or not ends_token(byte(buffer, end)):
        return BAD_GRADE, 0, at, 0
    if kind == SLOW:
        _leave(slow, 0, -1, at, end)
        return DONE, 0, end, 1
    if not (lowest <= grade <= _MAX_GRADE and grade == np.floor(grade)):
        return GRADE_RANGE, 0, at, 0
    return DONE, np.int64(grade), end, 0


@leaf
def _leave(slow, n, column, begin, end):
    """Leave the number of a column in ``buffer[begin:end]`` to the caller, as entry n of `slow`. Returns n + 1."""
    slow[n, 0] = column
    slow[n, 1] = begin
    slow[n, 2] = end - begin
    return n + 1


@leaf
def _read_qid(buffer, at, rule):
    """Read a qid, or nothing: (code, place of the id, its length or -1, place after it)."""
    if not _starts_qid(buffer, at):
        return NO_QID if rule == QID_REQUIRED else DONE, at, np.int64(-1), at
    first = at + 4
    end = first
    while not ends_token(byte(buffer, end)):
        end += 1
    if end == first:
        return EMPTY_QID, first, np.int64(0), end
    return UNEXPECTED_QID if rule == QID_ABSENT else DONE, first, end - first, end


@leaf
def _same_bytes(buffer, first, second, length):
    """Whether the `length` bytes at two places are equal."""
    for k in range(length):
        if byte(buffer, first + k) != byte(buffer, second + k):
            return False
    return True


@leaf
def _read_id(buffer, at, first_id, limit):
    """Read ``id:`` of a feature: (code, feature id, place after the colon)."""
    feature = np.int64(0)
    end = at
    digit = np.int64(byte(buffer, end)) - ZERO
    while 0 <= digit <= 9:
        if feature < _LARGEST_ID:
            feature = feature * 10 + digit
        end += 1
        digit = np.int64(byte(buffer, end)) - ZERO
    if end == at or byte(buffer, end) != COLON:
        return BAD_FEATURE, np.int64(0), end
    if feature < first_id:
        return FEATURE_ZERO, feature, end
    return DONE if feature - first_id < limit else FEATURE_RANGE, feature, end + 1


@leaf
def _read_value(buffer, at, null_is_zero):
    """Read the value of a feature: (code, value, place after it, whether it is left to the caller)."""
    value, end, kind = number(buffer, at)
    if kind == NO_NUMBER:
        code = _not_a_number(buffer, at)
        if code != NULL_VALUE or not null_is_zero:
            return code, 0.0, at, False
        value, end = 0.0, at + 4
    return DONE if ends_token(byte(buffer, end)) else BAD_VALUE, value, end, kind == SLOW


@leaf
def _zero(x, first, stop):
    """Set x[first:stop] to 0."""
    for k in range(first, stop):
        x[k] = 0


@leaf
def _read_row(buffer, at, rules, x, seen, stamp, slow, n, ascending):
    """Read features into x (d,), with zeros elsewhere: as long as their ids are `ascending`, or in any order.

    In any order `seen` (d,) is set to `stamp` at every column, so that none comes twice. `n` entries of `slow` are taken.
    Returns (code, place and id of the faulty feature, entries taken, largest column, place after it); the code is _DESCENDING
    where an id is not above the one before it.
    """
    first_id, _, null_is_zero, measure = rules
    top = np.int64(-1)
    if not (ascending or measure):
        x[:] = 0
    at = skip_space(buffer, at)
    while byte(buffer, at) != NEWLINE and byte(buffer, at) != SHARP:
        code, feature, token = _read_id(buffer, at, first_id, x.shape[0])
        column = feature - first_id
        if code == DONE and ascending and column <= top:
            code = _DESCENDING
        if code == DONE and not ascending and seen[column] == stamp:
            code = FEATURE_TWICE
        if code != DONE:
            return code, at, feature, n, top, at
        if not ascending:
            seen[column] = stamp
        code, value, end, is_slow = _read_value(buffer, token, null_is_zero)
        if ascending and not measure:
            _zero(x, top + 1, column)
        x[column] = value
        top = max(top, column)
        if code == DONE and np.isinf(x[column]):  # beyond float32
            code = NOT_FINITE
        if code != DONE:
            return code, token, feature, n, top, at
        if is_slow:
            n = _leave(slow, n, column, token, end)
        at = skip_space(buffer, end)
    if ascending and not measure:
        _zero(x, top + 1, x.shape[0])
    return DONE, at, np.int64(0), n, top, at


@leaf
def _read_entries(buffer, at, rules, limit, columns, values, begin, slow, n):
    """As `_read_row`, into entries of a sparse row from `begin` on, sorted by column. Also returns where they end."""
    first_id, _, null_is_zero, _ = rules
    features = at
    ascending = True
    last = np.int64(-1)
    top = np.int64(-1)
    stop = begin
    at = skip_space(buffer, at)
    while byte(buffer, at) != NEWLINE and byte(buffer, at) != SHARP:
        code, feature, token = _read_id(buffer, at, first_id, limit)
        if code != DONE:
            return code, at, feature, n, top, at, stop
        column = feature - first_id
        ascending &= column > last
        last = column
        top = max(top, column)
        code, value, end, is_slow = _read_value(buffer, token, null_is_zero)
        columns[stop] = column
        values[stop] = value
        if code == DONE and np.isinf(values[stop]):
            code = NOT_FINITE
        if code != DONE:
            return code, token, feature, n, top, at, stop
        stop += 1
        if is_slow:
            n = _leave(slow, n, column, token, end)
        at = skip_space(buffer, end)
    if not ascending:
        twice = _sort_row(columns[begin:stop], values[begin:stop])
        if twice >= 0:
            return FEATURE_TWICE, features, twice + first_id, n, top, at, stop
    return DONE, at, np.int64(0), n, top, at, stop


@inner
def _sort_row(columns, values):
    """Sort the entries of a row by column. Returns a duplicate column, or -1."""
    n = len(columns)
    keys, order = np.empty(n), np.arange(n)
    for k in range(n):
        keys[k] = -columns[k]
    sort_descending(keys, order, np.empty(n), np.empty(n, np.int64))
    columns[:] = columns[order]
    values[:] = values[order]
    for k in range(1, len(columns)):
        if columns[k] == columns[k - 1]:
            return np.int64(columns[k])
    return np.int64(-1)


@leaf
def _read_features(buffer, at, rules, X, row, stamp, slow, seen, n, entries):
    """Read the features of a row into X, or into `entries`: what `_read_row` returns."""
    if entries is None:
        read = _read_row(buffer, at, rules, X[row], seen, stamp, slow, n, True)
        return _read_row(buffer, at, rules, X[row], seen, stamp, slow, n, False) if read[0] == _DESCENDING else read
    starts, columns, values = entries
    begin = np.int64(0) if rules[3] else starts[row]
    code, place, feature, n, top, at, stop = _read_entries(buffer, at, rules, X.shape[1], columns, values, begin, slow, n)
    if code == DONE:
        starts[row + 1] = stop
    return code, place, feature, n, top, at


@leaf
def _require_room(buffer, place, measure, X, y, meta, slow, seen, entries):
    """Require text that ends in a newline, and room for what it says."""
    at, end, filled = place[:3]
    require(0 <= at <= end <= buffer.shape[0] and (at == end or byte(buffer, end - 1) == NEWLINE))
    require(0 <= filled <= y.shape[0] <= meta.shape[0] and meta.shape[1] == META_COLUMNS and slow.shape[1] == 3)
    if entries is None:
        require(X.shape[0] >= (1 if measure else y.shape[0]) and slow.shape[0] > X.shape[1] <= seen.shape[0])
    else:
        starts, columns, values = entries
        room = min(columns.shape[0], values.shape[0])
        begin = 0 if measure else starts[min(filled, starts.shape[0] - 1)]
        require(starts.shape[0] > y.shape[0] and begin >= 0 and 4 * (room - begin) >= end - at and slow.shape[0] > room)


@leaf
def _skip_line(buffer, at):
    """The place behind the newline that ends the line at `at`."""
    while byte(buffer, at) != NEWLINE:
        at += 1
    return at + 1


@kernel
def parse_rows(buffer, place, rules, X, y, meta, slow, seen, entries):
    """Parse lines of text into rows ``filled, filled + 1, ...`` of X, y and meta.

    Parameters
    ----------
    buffer : (n,) uint8
        Text; ``buffer[end - 1]`` is a newline (or at == end).
    place : tuple of int
        (at, end, filled, line, row, qid_rule): where to start and where to stop, the number of rows already filled, the numbers
        of the first line and of the first line with data, and QID_UNKNOWN, QID_REQUIRED, QID_ABSENT or QID_IGNORED; the first
        row turns QID_UNKNOWN into one of the next two.
    rules : tuple
        (first_id, lowest, null_is_zero, measure): the id of column 0, 0 or 1; the smallest accepted grade; whether the value
        NULL is 0 rather than an error; whether only the largest column of good lines is wanted: every row is then written to
        the same place, without its zeros.
    X : (rows, d) float array
        Receives the values, missing ones as 0.
    y : (rows,) int64
        Receives the grades.
    meta : (rows, META_COLUMNS) int64
        Receives line number, place, number of the data line, and the places of qid (length -1: none) and comment.
    slow : (d + 1, 3) int64
        Receives (column, position, length) of well-formed numbers that need exact conversion by the caller; column -1 is the
        grade.
    seen : (d,) int64
        Workspace, less than `line` everywhere: the last line with each feature, for lines whose ids do not ascend.
    entries : None, or arrays (starts, columns, values)
        Receive the rows instead of X, of which only the number of columns is used; row r is `starts[r]:starts[r + 1]`, by
        ascending column. There is room for an entry in every four bytes of text.

    Returns
    -------
    tuple of int
        (code, at, line, row, filled, tokens in `slow`, qid_rule, width, place of the fault, feature id of the fault). `at`,
        `line` and `row` are those of the next line to parse, or of the line that stopped the kernel: its contents are ignored,
        except that after SLOW_ROW its numbers are in row `filled`, with its largest feature id in the last field.
    """
    _require_room(buffer, place, rules[3], X, y, meta, slow, seen, entries)
    at, end, filled, line, row, qid_rule = place
    first_id, lowest, _, measure = rules
    width = np.int64(0)
    previous = np.int64(0)
    previous_length = np.int64(-2)
    while at < end:
        start = at
        at = skip_space(buffer, at)
        if byte(buffer, at) == NEWLINE or byte(buffer, at) == SHARP:  # a blank line, or nothing but a comment
            at = _skip_line(buffer, at)
            line += 1
            continue
        if filled == len(y):
            return FULL, start, line, row, filled, 0, qid_rule, width, start, 0
        code, grade, at, n_slow = _read_grade(buffer, at, lowest, slow)
        if code != DONE:
            return code, start, line, row, filled, 0, qid_rule, width, at, 0
        at = skip_space(buffer, at)
        code, qid, qid_length, after = _read_qid(buffer, at, qid_rule)
        if code != DONE:
            return code, start, line, row, filled, 0, qid_rule, width, qid if code == EMPTY_QID else at, 0
        code, fault, feature, n_slow, top, comment = _read_features(
            buffer, after, rules, X, filled, line, slow, seen, n_slow, entries
        )
        if code != DONE:
            return code, start, line, row, filled, 0, qid_rule, width, fault, feature
        at = _skip_line(buffer, comment)
        y[filled] = grade
        fresh = qid_length != previous_length or not _same_bytes(buffer, qid, previous, qid_length)
        previous = qid
        previous_length = qid_length
        meta[filled, QID] = qid
        meta[filled, QID_LENGTH] = qid_length
        meta[filled, FRESH] = fresh
        meta[filled, COMMENT] = comment
        meta[filled, COMMENT_LENGTH] = at - 1 - comment
        meta[filled, LINE] = line
        meta[filled, PLACE] = start
        meta[filled, ROW] = row
        if n_slow > 0:
            return SLOW_ROW, start, line, row, filled, n_slow, qid_rule, width, start, top + first_id
        if qid_rule == QID_UNKNOWN:
            qid_rule = QID_REQUIRED if qid_length >= 0 else QID_ABSENT
        width = max(width, top + 1)
        line += 1
        row += 1
        if not measure:
            filled += 1
    return DONE, at, line, row, filled, 0, qid_rule, width, at, 0
