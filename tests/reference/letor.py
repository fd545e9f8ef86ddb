"""LETOR text, read the slow and obvious way."""

import math
import re

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
ID = re.compile(r"\d+", re.ASCII)
MISSING = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "\\N", "None", "NaT", "<NA>")
SPACE = re.compile(r"[ \t\r\v\f]+")


class BadLine(Exception):
    """A line that is no document."""


def parse_line(text):
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
        if not ID.fullmatch(name) or not colon:
            raise BadLine("feature")
        if int(name) in features:
            raise BadLine("twice")
        if value in MISSING or (value[0] in "+-" and value[1:] in MISSING):
            value = "0"
        if not NUMBER.fullmatch(value):
            raise BadLine("value")
        number = float(value)
        if not math.isfinite(number):
            raise BadLine("value")
        features[int(name)] = number
    return int(grade), qid, features, comment.strip() if sharp else ""


def docid_of(comment):
    """The id of a document in the comment of its line: X of "docid = X", else the first word; empty without one."""
    found = re.search(r"docid\s*=\s*(\S+)", comment) or re.search(r"(\S+)", comment)
    return found[1] if found else ""


def is_utf8(text):
    """Whether bytes that were read as latin-1 are UTF-8."""
    try:
        text.encode("latin-1").decode()
    except UnicodeDecodeError:
        return False
    return True


def parse(data):
    """List of (X, y, qid, lines) of the bytes of a file with qids, X a list of rows, lines the rows' line numbers.

    Raises BadLine with (what, line number) at the first bad line.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in data[:4]:
        raise BadLine("UTF-16", 1)
    rows = []
    for number, line in enumerate(re.split(b"\r\n|\r|\n", data), start=1):
        try:
            row = parse_line(line.removeprefix(b"\xef\xbb\xbf").decode("latin-1"))
            if row is None:
                continue
            if row[1] is None:
                raise BadLine("qid")
            if max(row[2], default=0) > 1 << 24:
                raise BadLine("range")
            if not is_utf8(row[1]):
                raise BadLine("encoding")
            rows.append((number, *row))
        except BadLine as error:
            raise BadLine(error.args[0], number) from None
    first = 0 if any(0 in row[3] for row in rows) else 1
    d = max((max(row[3], default=0) for row in rows), default=0)
    queries = []
    for number, grade, qid, features, _ in rows:
        if not queries or queries[-1][2] != qid:
            queries.append(([], [], qid, []))
        queries[-1][0].append([features.get(j, 0.0) for j in range(first, d + 1)])
        queries[-1][1].append(grade)
        queries[-1][3].append(number)
    return queries
