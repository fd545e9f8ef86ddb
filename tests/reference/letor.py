"""LETOR text, read the slow and obvious way."""

import math
import re

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
ID = re.compile(r"\d+", re.ASCII)
NAN = re.compile(r"[+-]?nan", re.IGNORECASE)
SPACE = re.compile(r"[ \t\r\v\f]+")


class BadLine(Exception):
    """A line that is no document."""


def parse_line(text, *, zero_based=False, null_is_zero=True, single=False):
    """(grade, qid or None, {feature: value}, comment) of a line; None for a blank one."""
    content, sharp, comment = text.partition("#")
    tokens = [token for token in SPACE.split(content) if token]
    if not tokens:
        return None
    if not NUMBER.fullmatch(tokens[0]):
        raise BadLine("grade")
    grade = float(tokens[0])
    if not (0 <= grade <= 2.0**53 and grade == int(grade)):
        raise BadLine("grade")
    rest = tokens[1:]
    qid = None
    if rest and rest[0].startswith("qid:"):
        qid = rest.pop(0)[4:]
        if not qid:
            raise BadLine("qid")
    features = {}
    for token in rest:
        name, colon, value = token.partition(":")
        if not ID.fullmatch(name) or not colon or int(name) < (not zero_based):
            raise BadLine("feature")
        if int(name) in features:
            raise BadLine("twice")
        if null_is_zero and (value == "NULL" or NAN.fullmatch(value)):
            value = "0"
        if not NUMBER.fullmatch(value):
            raise BadLine("value")
        number = float(value)
        # Half an ulp above the largest float32, values round to infinity.
        if not math.isfinite(number) or (single and abs(number) >= 2.0**128 - 2.0**103):
            raise BadLine("value")
        features[int(name)] = number
    return int(grade), qid, features, comment.strip() if sharp else ""


def is_utf8(text):
    """Whether bytes that were read as latin-1 are UTF-8."""
    try:
        text.encode("latin-1").decode()
    except UnicodeDecodeError:
        return False
    return True


def parse(data, *, n_features=None, skip=False, **options):
    """List of (X, y, qid, lines) of the bytes of a file with qids, X a list of rows, lines the rows' line numbers.

    Raises BadLine with (what, line number) at the first bad line unless `skip`.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise BadLine("UTF-16", 1)  # the whole file is in another encoding: nothing to skip
    rows = []
    has_qid = None
    for number, line in enumerate(re.split(b"\r\n|\r|\n", data.removeprefix(b"\xef\xbb\xbf")), start=1):
        try:
            row = parse_line(line.decode("latin-1"), **options)
            if row is None:
                continue
            if has_qid is None and row[1] is None:
                skip = False  # bad lines can be left out, a file without queries is none
            if row[1] is None:
                raise BadLine("qid")
            if max(row[2], default=0) > (n_features or 65536):
                raise BadLine("range")
            has_qid = True
            if not is_utf8(row[1]):
                skip = False  # the whole file is in another encoding
                raise BadLine("encoding")
            rows.append((number, *row))
        except BadLine as error:
            if not skip:
                raise BadLine(error.args[0], number) from None
    d = n_features or max((max(row[3], default=0) for row in rows), default=0)
    queries = []
    for number, grade, qid, features, _ in rows:
        if not queries or queries[-1][2] != qid:
            queries.append(([], [], qid, []))
        queries[-1][0].append([features.get(j, 0.0) for j in range(1, d + 1)])
        queries[-1][1].append(grade)
        queries[-1][3].append(number)
    return queries
