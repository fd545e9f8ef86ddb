"""Queries from Vowpal Wabbit's multi-line ("ldf") examples with costs."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank.query import MAX_GRADE
from online_rank.stream.letor.source import Source, open_source, source_name, whole_lines

__all__ = ["iter_vw"]

_CHUNK = 1 << 20
_BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"


def iter_vw(
    *sources: Source, top: int, max_query_bytes: int = 1 << 26
) -> Iterator[tuple[dict[str, dict[str, float]] | list[dict[str, float]], np.ndarray]]:
    r"""Stream the queries of Vowpal Wabbit text as feature dicts and grades.

    Reads the examples of `--csoaa_ldf` and `--wap_ldf`: one line for each document, `label:cost |namespace feature
    feature:value`, a blank line after each query, and optionally a line `shared |namespace ...` before its documents. A cost c
    is the grade `top` - c.

    A feature is named `namespace^feature`, as shown by `--audit`, or `feature` in the unnamed namespace. A feature without a
    value is 1, the weight of a namespace (`|words:0.5`) multiplies its values, and repeated features add up. Shared features
    are added to each document. Labels are ignored: Vowpal Wabbit does not learn from them either.

    Parameters
    ----------
    *sources : path, file object or "-"
        What to read, one after the other; gzip is recognised by its content. The end of a file ends a query.
    top
        The grade of a document with cost 0.
    max_query_bytes
        Longest text of a query. A longer one, perhaps because of a missing blank line, is an error.

    Returns
    -------
    An iterator of (x, y): x is `{tag: features}` if all documents of a query have a tag (`1:0.5 'tag |...`), all different,
    else a list of feature dicts; y is (m,) int64.

    Raises
    ------
    ValueError
        With file and line: while iterating, at the first line that is not such an example, or whose cost gives no valid grade.
    OSError
        If a file cannot be read.

    Examples
    --------
    >>> import io
    >>> text = "shared |u age:30\n1:0 'a |d new clicks:3\n2:2 'b |d old\n\n1:1 |d new\n"
    >>> for x, y in iter_vw(io.StringIO(text), top=2):
    ...     print(x, y)
    {'a': {'u^age': 30.0, 'd^new': 1.0, 'd^clicks': 3.0}, 'b': {'u^age': 30.0, 'd^old': 1.0}} [2 0]
    [{'d^new': 1.0}] [1]
    """
    if isinstance(top, bool) or not isinstance(top, int | np.integer) or not 0 <= top <= MAX_GRADE:
        raise ValueError(f"top is {top!r}; it is a grade, an integer from 0 to {MAX_GRADE}")
    arguments.integer("max_query_bytes", max_query_bytes, 1)
    return _queries(sources, int(top), max_query_bytes)


def _queries(sources: Iterable[Source], top: int, most: int) -> Iterator[tuple[Any, np.ndarray]]:
    for source in sources:
        name, number, size = source_name(source), 0, 0
        lines: list[tuple[int, str]] = []
        for line in _lines(source):
            number += 1
            size += len(line)
            if size > most:
                raise ValueError(f"{name}, line {number}: the query is longer than max_query_bytes={most}")
            if line.strip():
                lines.append((number, line))
                continue
            if lines:
                yield _query(lines, name, top)
            lines, size = [], 0
        if lines:
            yield _query(lines, name, top)


def _lines(source: Source) -> Iterator[str]:
    first = True
    with open_source(source) as stream:
        for buffer, end in whole_lines(stream, 0, _CHUNK):
            text = buffer[: end - 1].decode("utf-8", "backslashreplace")
            yield from (text.removeprefix(_BOM) if first else text).split("\n")
            first = False


def _query(lines: list[tuple[int, str]], file: str, top: int) -> tuple[Any, np.ndarray]:
    """One query of the lines (number, text) of an example."""
    shared: dict[str, float] = {}
    documents: list[dict[str, float]] = []
    tags: list[str] = []
    grades: list[int] = []
    for number, line in lines:
        try:
            head, bar, rest = line.partition("|")
            if not bar:
                raise ValueError("no features: a line is label:cost |namespace feature:value ...")
            words = head.split()
            if words[:1] == ["shared"]:
                if documents or shared:
                    raise ValueError("'shared' is not the first line of its query")
                shared = _features(rest, {})
                continue
            tags.append(_tag(words))
            grades.append(_grade(words, top))
            documents.append(_features(rest, dict(shared)))
        except ValueError as error:
            raise ValueError(f"{file}, line {number}: {error}") from None
    y = np.array(grades, dtype=np.int64)
    if documents and "" not in tags and len(set(tags)) == len(tags):
        return dict(zip(tags, documents, strict=True)), y
    return documents, y


def _tag(words: list[str]) -> str:
    """The tag of an example, its last word before the bar if it begins with an apostrophe; "" without one."""
    return words.pop()[1:] if words and words[-1].startswith("'") else ""


def _grade(words: list[str], top: int) -> int:
    """The grade of the label `label:cost`."""
    cost = _number(words[0].partition(":")[2]) if words else None
    if cost is None or len(words) > 1:
        raise ValueError(f"the label {' '.join(words)!r:.80} is not label:cost")
    if not (cost == round(cost) and 0 <= top - cost <= MAX_GRADE):
        raise ValueError(f"the cost {cost:g} gives no grade: top - cost is not an integer from 0 to {MAX_GRADE}, top={top}")
    return top - int(cost)


def _features(text: str, features: dict[str, float]) -> dict[str, float]:
    """Add the features of the namespaces in a text to those given."""
    for namespace in text.split("|"):
        words = namespace.split()
        prefix, weight = "", 1.0
        if words and not namespace[0].isspace():
            name, weight = _with_value(words.pop(0))
            prefix = f"{name}^" if name else ""
        for word in words:
            name, value = _with_value(word)
            features[prefix + name] = features.get(prefix + name, 0.0) + weight * value
    return features


def _with_value(word: str) -> tuple[str, float]:
    """The parts of `name:value`; the value is 1 if missing."""
    name, colon, text = word.partition(":")
    value = _number(text) if colon else 1.0
    if value is None:
        raise ValueError(f"the value {text!r:.80} of {name!r:.80} is not a finite number")
    return name, value


def _number(text: str) -> float | None:
    """A finite number, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
