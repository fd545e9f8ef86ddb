"""Parse LETOR / svmlight text: one pass over the bytes, rows written straight into a dense matrix, or into sparse rows.

`parse_rows` reads whole lines of ``grade qid:id feature:value ... # comment``. Every line must end in a newline inside the
buffer: the newline is the sentinel that stops every inner loop, so no loop checks the buffer's end. An error in a line is
reported by one of the codes below and the position of the token; the caller writes the message.
"""

import numpy as np

from online_rank._kernels._jit import inner, kernel
from online_rank._kernels.fits import require

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

# Columns of `meta`: further facts about a row. Positions are indices into the buffer.
# FRESH: 1 where the qid is not that of the row before (or there is none before in this call). SKIPPED is the caller's.
LINE, PLACE, ROW, QID, QID_LENGTH, FRESH, COMMENT, COMMENT_LENGTH, SKIPPED = range(9)
META_COLUMNS = 9

# Whether rows have a qid: unknown before the first row; all must; none may; irrelevant.
QID_UNKNOWN, QID_REQUIRED, QID_ABSENT, QID_IGNORED = range(4)

# Result codes of `_number`.
_NUMBER, _SLOW, _NO_NUMBER = range(3)

# Characters. White space is the space and 9 to 13: tab, newline, vertical tab, form feed, carriage return.
_NEWLINE, _SPACE, _SHARP, _PLUS, _MINUS, _DOT, _ZERO, _COLON = b"\n #+-.0:"

_POWERS = 10.0 ** np.arange(23)  # all exact
_MAX_GRADE = 2.0**53
_LARGEST_ID = 10**12  # larger feature ids are treated as equal
_SPLIT = 134217729.0  # 2**27 + 1, Dekker's splitter


@inner
def _product_error(a, b, product):
    """The rounding error a b - fl(a b), exactly (Dekker 1971)."""
    c = _SPLIT * a
    a_high = c - (c - a)
    a_low = a - a_high
    c = _SPLIT * b
    b_high = c - (c - b)
    b_low = b - b_high
    return a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


@inner
def _scale_long(mantissa, exponent):
    """The double nearest to ``mantissa * 10**exponent``, mantissa < 10**19, abs(exponent) <= 22, and whether that is certain.

    The mantissa is a sum of two doubles, the power of ten is one, so the result is known to about 100 bits: a leading double
    and a correction. If the correction, with its own error, does not decide the rounding, the result is False.
    """
    tail = mantissa & np.uint64(2047)
    high = np.float64(mantissa - tail)  # at most 53 bits
    low = np.float64(tail)
    if exponent < 0:
        power = _POWERS[-exponent]
        lead = high / power
        product = lead * power
        rest = (((high - product) - _product_error(lead, power, product)) + low) / power
    else:
        power = _POWERS[exponent]
        lead = high * power
        rest = _product_error(high, power, lead) + low * power
    doubt = abs(rest) * 2.0**-49
    value = lead + (rest - doubt)
    return value, value == lead + (rest + doubt)


@inner
def _byte(buffer, at):
    """``buffer[at]``. Unsigned, which avoids the check for negative indices."""
    return buffer[np.uint64(at)]


@inner
def _ends_token(c):
    """White space, the end of the line, or the start of a comment."""
    return c in (_SPACE, _SHARP) or 9 <= c <= 13


@inner
def _skip_space(buffer, at):
    """The first position from `at` on that is not white space; it may be the end of the line."""
    c = _byte(buffer, at)
    while c == _SPACE or (9 <= c <= 13 and c != _NEWLINE):
        at += 1
        c = _byte(buffer, at)
    return at


@inner
def _starts_qid(buffer, at):
    """Whether ``qid:`` is at `at`."""
    if _byte(buffer, at) != ord("q") or _byte(buffer, at + 1) != ord("i") or _byte(buffer, at + 2) != ord("d"):
        return False
    return _byte(buffer, at + 3) == _COLON


@inner
def _number(buffer, at):
    """Read ``[+-] digits [. digits] [e [+-] digits]`` at `at`: (value, place after it, how it went).

    The value is the double nearest to the decimal number. Up to 2**53 with a power of ten up to 22 one rounding settles it
    (Clinger 1990); up to 19 digits `_scale_long` does; the rest is `_SLOW`: well formed, left to the caller.
    """
    c = _byte(buffer, at)
    negative = c == _MINUS
    if negative or c == _PLUS:
        at += 1
    mantissa = np.uint64(0)
    first = at
    digit = np.int64(_byte(buffer, at)) - _ZERO
    while 0 <= digit <= 9:
        mantissa = mantissa * np.uint64(10) + np.uint64(digit)
        at += 1
        digit = np.int64(_byte(buffer, at)) - _ZERO
    digits = at - first
    exponent = np.int64(0)
    if _byte(buffer, at) == _DOT:
        at += 1
        point = at
        digit = np.int64(_byte(buffer, at)) - _ZERO
        while 0 <= digit <= 9:
            mantissa = mantissa * np.uint64(10) + np.uint64(digit)
            at += 1
            digit = np.int64(_byte(buffer, at)) - _ZERO
        exponent = point - at
        digits += at - point
    if digits == 0:
        return 0.0, at, _NO_NUMBER
    if digits > 19:
        while first < at and (_byte(buffer, first) == _ZERO or _byte(buffer, first) == _DOT):
            digits -= _byte(buffer, first) == _ZERO
            first += 1
    if _byte(buffer, at) == ord("e") or _byte(buffer, at) == ord("E"):
        at += 1
        c = _byte(buffer, at)
        if c in (_MINUS, _PLUS):
            at += 1
        power = np.int64(0)
        first = at
        digit = np.int64(_byte(buffer, at)) - _ZERO
        while 0 <= digit <= 9:
            if power < 1_000_000:
                power = power * 10 + digit
            at += 1
            digit = np.int64(_byte(buffer, at)) - _ZERO
        if at == first:
            return 0.0, at, _NO_NUMBER
        exponent = exponent - power if c == _MINUS else exponent + power
    if digits > 19:
        return 0.0, at, _SLOW
    if mantissa == 0 or (exponent == 0 and mantissa <= np.uint64(1 << 53)):
        value = np.float64(mantissa)
    elif exponent < -22 or exponent > 22:
        return 0.0, at, _SLOW
    elif mantissa <= np.uint64(1 << 53):
        value = np.float64(mantissa) / _POWERS[-exponent] if exponent < 0 else np.float64(mantissa) * _POWERS[exponent]
    else:
        value, certain = _scale_long(mantissa, exponent)
        if not certain:
            return 0.0, at, _SLOW
    return -value if negative else value, at, _NUMBER


@inner
def _not_a_number(buffer, at):
    """The code for the value at `at`, which is not a number: NULL, an infinity or NaN, or something else."""
    c = _byte(buffer, at)
    if c == ord("N") and _byte(buffer, at + 1) == ord("U") and _byte(buffer, at + 2) == ord("L"):
        return NULL_VALUE if _byte(buffer, at + 3) == ord("L") else BAD_VALUE
    if c in (_MINUS, _PLUS):
        at += 1
    c = _byte(buffer, at) | 32  # small letters differ from capitals in this bit
    if c == ord("n") and _byte(buffer, at + 1) | 32 == ord("a") and _byte(buffer, at + 2) | 32 == ord("n"):
        return NOT_FINITE
    if c == ord("i") and _byte(buffer, at + 1) | 32 == ord("n") and _byte(buffer, at + 2) | 32 == ord("f"):
        return NOT_FINITE
    return BAD_VALUE


@inner
def _sort_row(columns, values):
    """Sort the entries of a row by column. Returns a duplicate column, or -1."""
    order = np.argsort(columns, kind="mergesort")
    columns[:] = columns[order]
    values[:] = values[order]
    for k in range(1, len(columns)):
        if columns[k] == columns[k - 1]:
            return np.int64(columns[k])
    return np.int64(-1)


@inner
def _require_room(buffer, at, end, X, y, meta, filled, slow, seen, measure, entries):
    """Require text that ends in a newline, and room for what it says."""
    require(0 <= at <= end <= buffer.shape[0] and (at == end or _byte(buffer, end - 1) == _NEWLINE))
    require(0 <= filled <= y.shape[0] <= meta.shape[0] and meta.shape[1] == META_COLUMNS and slow.shape[1] == 3)
    if entries is None:
        require(X.shape[0] >= (1 if measure else y.shape[0]) and slow.shape[0] > X.shape[1] <= seen.shape[0])
    else:
        starts, columns, values = entries
        room = min(columns.shape[0], values.shape[0])
        begin = 0 if measure else starts[min(filled, starts.shape[0] - 1)]
        require(starts.shape[0] > y.shape[0] and begin >= 0 and 4 * (room - begin) >= end - at and slow.shape[0] > room)


@kernel
def parse_rows(
    buffer, at, end, X, y, meta, filled, slow, seen, line, row, qid_rule, first_id, null_is_zero, lowest, measure, entries=None
):  # fmt: skip
    """Parse the lines in ``buffer[at:end]`` into rows ``filled, filled + 1, ...`` of X, y and meta.

    Parameters
    ----------
    buffer : (n,) uint8
        Text; ``buffer[end - 1]`` is a newline (or at == end).
    at, end : int
        Where to start, where to stop.
    X : (rows, d) float array
        Receives the values, missing ones as 0.
    y : (rows,) int64
        Receives the grades.
    meta : (rows, META_COLUMNS) int64
        Receives line number, place, number of the data line, and the places of qid (length -1: none) and comment.
    filled : int
        Number of rows already filled.
    slow : (d + 1, 3) int64
        Receives (column, position, length) of well-formed numbers that need exact conversion by the caller; column -1 is the
        grade.
    seen : (d,) int64
        Workspace, less than `line` everywhere: the last line with each feature, for lines whose ids do not ascend.
    line, row : int
        Number of the first line, and of the first line with data.
    qid_rule : int
        QID_UNKNOWN, QID_REQUIRED, QID_ABSENT or QID_IGNORED; the first row turns QID_UNKNOWN into one of the next two.
    first_id : int
        The id of column 0: 0 or 1.
    null_is_zero : bool
        Whether the value NULL is 0 rather than an error.
    lowest : float
        The smallest accepted grade.
    measure : bool
        Only find the largest column of good lines: every row is written to the same place, without its zeros.
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
    _require_room(buffer, at, end, X, y, meta, filled, slow, seen, measure, entries)
    limit = X.shape[1]
    width = 0
    previous = 0
    previous_length = -2
    while at < end:
        start = at
        at = _skip_space(buffer, at)
        if _byte(buffer, at) == _NEWLINE or _byte(buffer, at) == _SHARP:  # a blank line, or nothing but a comment
            while _byte(buffer, at) != _NEWLINE:
                at += 1
            at += 1
            line += 1
            continue
        if filled == len(y):
            return FULL, start, line, row, filled, 0, qid_rule, width, start, 0
        # The grade.
        slow_count = 0
        token = at
        grade, at, kind = _number(buffer, at)
        c = _byte(buffer, at)
        if kind == _NO_NUMBER or not _ends_token(c):
            return BAD_GRADE, start, line, row, filled, 0, qid_rule, width, token, 0
        if kind == _SLOW:
            slow[slow_count, 0] = -1
            slow[slow_count, 1] = token
            slow[slow_count, 2] = at - token
            slow_count += 1
        elif not (lowest <= grade <= _MAX_GRADE and grade == np.floor(grade)):
            return GRADE_RANGE, start, line, row, filled, 0, qid_rule, width, token, 0
        y[filled] = np.int64(grade)

        # The query.
        at = _skip_space(buffer, at)
        qid_length = -1
        token = at
        if _starts_qid(buffer, at):
            at += 4
            token = at
            c = _byte(buffer, at)
            while not _ends_token(c):
                at += 1
                c = _byte(buffer, at)
            qid_length = at - token
            if qid_length == 0:
                return EMPTY_QID, start, line, row, filled, 0, qid_rule, width, token, 0
            if qid_rule == QID_ABSENT:
                return UNEXPECTED_QID, start, line, row, filled, 0, qid_rule, width, token - 4, 0
        elif qid_rule == QID_REQUIRED:
            return NO_QID, start, line, row, filled, 0, qid_rule, width, token, 0
        meta[filled, QID] = token
        meta[filled, QID_LENGTH] = qid_length
        fresh = qid_length != previous_length
        k = 0
        while not fresh and k < qid_length:
            fresh = _byte(buffer, token + k) != _byte(buffer, previous + k)
            k += 1
        meta[filled, FRESH] = fresh

        # The features. Ascending ids are written at once, with zeros in the gaps; at the first one that does not ascend, the
        # row is zeroed and started again, marking every column, so that duplicate ids are found.
        features = at
        ascending = True
        last = -1
        top = -1
        if entries is not None:
            starts, columns, values = entries
            begin = 0 if measure else starts[filled]
            n = begin
        while True:
            at = _skip_space(buffer, at)
            c = _byte(buffer, at)
            if c in (_NEWLINE, _SHARP):
                break
            token = at
            feature = np.int64(0)
            digit = np.int64(c) - _ZERO
            while 0 <= digit <= 9:
                if feature < _LARGEST_ID:
                    feature = feature * 10 + digit
                at += 1
                digit = np.int64(_byte(buffer, at)) - _ZERO
            if at == token or _byte(buffer, at) != _COLON:
                return BAD_FEATURE, start, line, row, filled, 0, qid_rule, width, token, 0
            column = feature - first_id
            if column < 0:
                return FEATURE_ZERO, start, line, row, filled, 0, qid_rule, width, token, feature
            if column >= limit:
                return FEATURE_RANGE, start, line, row, filled, 0, qid_rule, width, token, feature
            if entries is not None:
                ascending &= column > last
                last = column
            elif ascending:
                if column <= last:
                    ascending = False
                    at = features
                    top = -1
                    slow_count = 1 if slow_count > 0 and slow[0, 0] == -1 else 0
                    if not measure:
                        X[filled] = 0
                    continue
                if not measure:
                    for k in range(last + 1, column):
                        X[filled, k] = 0
                last = column
            else:
                if seen[column] == line:
                    return FEATURE_TWICE, start, line, row, filled, 0, qid_rule, width, token, feature
                seen[column] = line
            top = max(top, column)
            token = at + 1
            value, at, kind = _number(buffer, token)
            if kind == _NO_NUMBER:
                code = _not_a_number(buffer, token)
                if code == NULL_VALUE and null_is_zero:
                    at = token + 4
                    value = 0.0
                else:
                    return code, start, line, row, filled, 0, qid_rule, width, token, feature
            c = _byte(buffer, at)
            if not _ends_token(c):
                return BAD_VALUE, start, line, row, filled, 0, qid_rule, width, token, feature
            if kind == _SLOW:
                slow[slow_count, 0] = column
                slow[slow_count, 1] = token
                slow[slow_count, 2] = at - token
                slow_count += 1
            if entries is not None:
                columns[n] = column
                values[n] = value
                infinite = np.isinf(values[n])
                n += 1
            else:
                X[filled, column] = value
                infinite = np.isinf(X[filled, column])
            if infinite:  # beyond float32
                return NOT_FINITE, start, line, row, filled, 0, qid_rule, width, token, feature
        if entries is not None:
            if not ascending:
                twice = _sort_row(columns[begin:n], values[begin:n])
                if twice >= 0:
                    return FEATURE_TWICE, start, line, row, filled, 0, qid_rule, width, features, twice + first_id
            starts[filled + 1] = n
        elif ascending and not measure:
            for k in range(last + 1, limit):
                X[filled, k] = 0

        comment = at
        while _byte(buffer, at) != _NEWLINE:
            at += 1
        previous = meta[filled, QID]
        previous_length = qid_length
        meta[filled, COMMENT] = comment
        meta[filled, COMMENT_LENGTH] = at - comment
        meta[filled, LINE] = line
        meta[filled, PLACE] = start
        meta[filled, ROW] = row
        if slow_count > 0:
            return SLOW_ROW, start, line, row, filled, slow_count, qid_rule, width, start, top + first_id
        if qid_rule == QID_UNKNOWN:
            qid_rule = QID_REQUIRED if qid_length >= 0 else QID_ABSENT
        width = max(width, top + 1)
        at += 1
        line += 1
        row += 1
        if not measure:
            filled += 1
    return DONE, at, line, row, filled, 0, qid_rule, width, at, 0
