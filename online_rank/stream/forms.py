"""The forms in which people keep runs and judgements: each is recognised by its first line, and read as entries with names."""

import csv
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

from online_rank.stream.objects import is_array, json_of, objects_of
from online_rank.stream.source import ReadError, Text, text_of
from online_rank.stream.values import MISSING_WORDS

#: What the columns are called in files that have a header, and in objects of JSON.
_NAMES = {
    "qid": {"query-id", "query_id", "queryid", "qid", "query", "topic", "topic_id", "topicid", "query text", "query_text"},
    "docid": {
        "corpus-id", "corpus_id", "doc-id", "doc_id", "docid", "docno", "document", "document_id", "pid", "passage_id",
        "doc id",
    },
    "grade": {"score", "grade", "relevance", "rel", "label", "judgment", "judgement", "rating"},
    "score": {"score", "sim", "similarity"},
    "rank": {"rank", "position", "doc position", "doc_position"},
}  # fmt: skip
_COLUMNS = {"score": "qid Q0 docid rank score tag", "grade": "qid 0 docid grade"}
_TREC, _MARCO = "TREC", "MS MARCO (query, document, rank)"
_SCORED = "three columns (query, document, score)"
_DICT, _ROWS = "JSON, a dict of each query", "JSON, an object of each document"
_WORKBENCH, _QUEPID, _BOOK = "Search Relevance Workbench", "Quepid", "a book of Quepid"

#: What separates the columns of csv; spreadsheets write semicolons where decimals have commas.
_SEPARATORS = ",;"

_NO_BREAK_SPACE = "\u00a0".encode()
_ADVICE = "; no-break spaces are part of ids, and do not separate columns"


class Entry(NamedTuple):
    """What a file says of a document.

    Attributes
    ----------
    at : str
        The file and the line or the object, for messages.
    found : dict
        "qid", "docid", and "grade", "score" or "rank", as texts.
    """

    at: str
    found: dict[str, str]


class Entries:
    """The entries of a file of one kind of value: "score" in runs, "grade" in judgements.

    Attributes
    ----------
    form : str
        The form of the file.
    n_unrated : int
        Documents of Quepid without a rating, which are left out.
    """

    def __init__(self, path: str | os.PathLike[str], value: str) -> None:
        self.form, self.n_unrated, self._value = _TREC, 0, value
        self._roles = {"qid", "docid", value, *(["rank"] if value == "score" else [])}
        self._text = Text(path)
        self._found = (
            self._of_json() if self._text.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[") else self._of_lines()
        )

    def __iter__(self) -> Iterator[Entry]:
        return self._found

    @property
    def note(self) -> str:
        """The form of the file, unless it is of TREC, and what is left out; empty without either."""
        left_out = f"; left out: {self.n_unrated:,} documents without a rating" if self.n_unrated else ""
        return "" if self.form == _TREC else f"read as {self.form}{left_out}"

    # Lines

    def _of_lines(self) -> Iterator[Entry]:
        lines = ((number, line) for number, line in self._text.lines() if not line.lstrip().startswith(b"#"))
        first = next(lines, None)
        if first is None:
            return
        every = chain([first], lines)
        if (header := self._csv_header(first)) is not None:
            yield from self._of_csv(header, first[0], every)
        elif self._value == "score" and len(first[1].split()) == 3:
            yield from self._of_three(every)
        else:
            yield from self._of_columns(every)

    def _of_columns(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[Entry]:
        """Lines of TREC; ASCII blanks separate columns.

        Tabs alone separate them in a line with one tab between any two columns, so that ids may have blanks. The first line may
        be a header. Judgements have at most as many columns as their form says, since more would mean another format; of a run,
        what follows is ignored.
        """
        name, form = self._text.name, _COLUMNS[self._value]
        at, width = {name: i for i, name in enumerate(form.split())}, 0
        for number, line in lines:
            parts = line.split()
            if not width:
                width = len(at)
                named = _named([text_of(name, number, part) for part in parts], {*at})
                if {"qid", "docid", self._value} <= named.keys():
                    at, width = named, len(parts)
                    continue
            if len(parts) > width and line.count(b"\t") == width - 1 and all(tabbed := [*map(bytes.strip, line.split(b"\t"))]):
                parts = tabbed
            if len(parts) < width or (self._value == "grade" and len(parts) > width):
                advice = _ADVICE * (_NO_BREAK_SPACE in line)
                raise ReadError(f"{name}, line {number}: {len(parts)} columns, not {form!r}{advice}")
            yield Entry(f"{name}, line {number}", {key: text_of(name, number, parts[i]) for key, i in at.items()})

    def _of_three(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[Entry]:
        """Lines `qid docid rank`, as MS MARCO and pyserini write them, or `qid docid score`: the numbers tell which."""
        name, rows = self._text.name, []
        for number, line in lines:
            parts = line.split()
            if len(parts) != 3 and line.count(b"\t") == 2:
                parts = [*map(bytes.strip, line.split(b"\t"))]
            if len(parts) != 3 or not all(parts):
                raise ReadError(f"{name}, line {number}: {len(parts)} columns, and the first line has 3: query, document, rank")
            rows.append((f"{name}, line {number}", [text_of(name, number, part) for part in parts]))
        if rows and _number_of(rows[0][1][2]) is None and len({*_named(rows[0][1], {"qid", "docid", "rank", "score"})}) == 3:
            named = _named(rows[0][1], {"qid", "docid", "rank", "score"})
            self.form = _SCORED if "score" in named else _MARCO
            yield from (Entry(at, {key: row[i] for key, i in named.items()}) for at, row in rows[1:])
            return
        for at, row in rows:
            if _number_of(row[2]) is None:
                raise ReadError(f"{at}: 3 columns, not {_COLUMNS['score']!r}, nor query, document and a number: {row[2]!r:.60}")
        is_rank = _are_ranks([row for _, row in rows])
        self.form = _MARCO if is_rank else _SCORED
        key = "rank" if is_rank else "score"
        yield from (Entry(at, {"qid": row[0], "docid": row[1], key: row[2]}) for at, row in rows)

    # csv

    def _csv_header(self, first: tuple[int, bytes]) -> list[str] | None:
        """The names of the columns of csv; None unless the first line has the names of queries and documents."""
        text = text_of(self._text.name, *first)
        for self._separator in _SEPARATORS:
            words = next(csv.reader([text], delimiter=self._separator), [])
            if len(words) > 2 and {"qid", "docid"} <= _named(words, {"qid", "docid"}).keys():
                return words
        return None

    def _of_csv(self, header: list[str], first: int, lines: Iterable[tuple[int, bytes]]) -> Iterator[Entry]:
        """Rows of csv, as Quepid exports cases, snapshots and books."""
        name = self._text.name
        named = _named(header, self._roles)
        values = [key for key in (self._value, "rank") if key in named]
        is_quepid = [word.strip().lower() for word in header] == ["query", "docid", "rating"] or "Query Text" in header
        self.form = _QUEPID if is_quepid else "csv"
        judges = [i for i in range(len(header)) if i not in named.values()]
        if not values and self._value == "grade" and judges:
            self.form = f"{_BOOK} (the rounded mean of {len(judges)} judges)" if len(judges) > 1 else f"{_BOOK} (one judge)"
        elif not values:
            wanted = "a score or a rank" if self._value == "score" else "a grade"
            raise ReadError(f"{name}: no column is called {wanted}; there are {', '.join(header)}")
        rows = csv.reader(_texts(name, lines), delimiter=self._separator)
        next(rows)
        for row in filter(None, rows):
            at = f"{name}, line {first + rows.line_num - 1}"
            if len(row) not in (len(header), 1):
                raise ReadError(f"{at}: {len(row)} columns, and the header has {len(header)}")
            row += [""] * (len(header) - len(row))
            found = {key: row[i].strip() for key, i in named.items()}
            if not values:
                found["grade"] = _mean(at, [row[i] for i in judges])
            if not found[values[0] if values else "grade"] and self.form != "csv":
                self.n_unrated += 1
                continue
            yield Entry(at, found)

    # JSON

    def _of_json(self) -> Iterator[Entry]:
        """Objects of JSON: dicts of queries, the lists of the workbench, the cases of Quepid, or documents with names."""
        name = self._text.name
        if is_array(self._text.head):
            for at, one in objects_of(self._text):
                yield from self._of_object(at, one)
            return
        whole = b"".join(bytes(block) for block, _ in self._text.blocks())
        try:
            some = [(name, json_of(name, 1, whole))]
        except ReadError as error:
            lines = [(number, line) for number, line in enumerate(whole.split(b"\n"), start=1) if line.strip()]
            if len(lines) == 1 or not all(line.rstrip().endswith(b"}") for _, line in lines):
                raise ReadError(f"{name}: not an object of JSON, nor one on each line ({error})") from None
            some = [(f"{name}, line {number}", json_of(name, number, line)) for number, line in lines]
        for at, one in some:
            yield from self._of_object(at, one)

    def _of_object(self, at: str, one: dict[str, Any]) -> Iterator[Entry]:
        if isinstance(one.get("_source"), dict):
            one = one["_source"]
        hits = one.get("hits")
        if isinstance(hits, dict) and isinstance(hits.get("hits"), list):
            for hit in hits["hits"]:
                yield from self._of_object(at, _object(at, hit))
        elif "judgmentRatings" in one:
            self.form = _WORKBENCH
            yield from self._of_workbench(at, one["judgmentRatings"])
        elif isinstance(one.get("queries"), list):
            self.form = _QUEPID
            for query in one["queries"]:
                yield from self._of_query(at, str(_object(at, query).get("query")), query.get("ratings") or {})
        elif {"qid", "docid"} <= (named := _named([*one], self._roles)).keys():
            self.form = _ROWS
            words = [*one.values()]
            if not {self._value, "rank"} & named.keys():
                raise ReadError(f"{at}: no name for the {self._value}: it has {', '.join(map(repr, [*one][:8]))}")
            yield Entry(at, {key: _shown(words[i]) for key, i in named.items()})
        else:
            self.form = _DICT
            for qid, documents in one.items():
                yield from self._of_query(at, qid, documents)

    def _of_query(self, at: str, qid: str, documents: Any) -> Iterator[Entry]:
        if not isinstance(documents, dict):
            what = '{"q1": {"d1": 2}}, judgmentRatings, or an object of each document'
            raise ReadError(f"{at}: query {qid!r:.60} has a {type(documents).__name__}; known forms are {what}")
        for docid, value in documents.items():
            yield Entry(f"{at}, query {qid!r:.60}", {"qid": qid, "docid": docid, self._value: _shown(value)})

    def _of_workbench(self, at: str, lists: Any) -> Iterator[Entry]:
        """The ratings of a list of judgements, in today's form and in the first one, a dict of the queries."""
        if self._value == "score":
            raise ReadError(f"{at}: judgements of the {_WORKBENCH}, and a run is wanted")
        if isinstance(lists, dict):
            lists = [{"query": query, "ratings": ratings} for query, ratings in lists.items()]
        for one in lists if isinstance(lists, Sequence) else [lists]:
            query, ratings = _object(at, one).get("query"), one.get("ratings")
            if not isinstance(query, str) or not isinstance(ratings, list):
                raise ReadError(f"{at}: an object of judgmentRatings has no query, or no list of ratings")
            for rating in ratings:
                docid = _object(at, rating).get("docId")
                if docid is None:
                    raise ReadError(f"{at}, query {query!r:.60}: a rating has no docId")
                yield Entry(
                    f"{at}, query {query!r:.60}", {"qid": query, "docid": str(docid), "grade": _shown(rating.get("rating"))}
                )


def _named(words: Sequence[str], roles: set[str]) -> dict[str, int]:
    """The places of the columns with these roles."""
    lower = [word.strip().lower() for word in words]
    return {role: i for i, word in reversed([*enumerate(lower)]) for role in roles if word in _NAMES.get(role, ())}


def _are_ranks(rows: Sequence[Sequence[str]]) -> bool:
    """Whether third columns are ranks: integers that rise in each list as the file has it, or are 1, 2, ... in any order."""
    lists: dict[str, list[float]] = {}
    for qid, _, text in rows:
        number = _number_of(text)
        if number is None or number != int(number) or number < 0:
            return False  # a score
        lists.setdefault(qid, []).append(number)
    if all(b > a for ranks in lists.values() for a, b in pairwise(ranks)):
        return True
    falling = all(b < a for ranks in lists.values() for a, b in pairwise(ranks))
    return not falling and all(sorted(ranks) == [*range(1, len(ranks) + 1)] for ranks in lists.values())


def _number_of(text: str) -> float | None:
    """A finite number, or None."""
    try:
        value = float("nan" if "_" in text else text)
    except ValueError:
        return None
    return value if abs(value) < 2.0**53 else None


def _mean(at: str, texts: Iterable[str]) -> str:
    """The rounded mean of the ratings of judges; empty without one."""
    given = [text.strip() for text in texts if text.strip() not in MISSING_WORDS]
    numbers = [_number_of(text) for text in given]
    if None in numbers:
        raise ReadError(f"{at}: the rating {given[numbers.index(None)]!r:.60} is not a number")
    return str(int(sum(numbers) / len(numbers) + 0.5)) if numbers else ""  # type: ignore[arg-type]


def _shown(value: Any) -> str:
    """A value of JSON as text."""
    return value if isinstance(value, str) else json.dumps(value)


def _object(at: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ReadError(f"{at}: {json.dumps(value):.60} stands where an object is wanted")
    return value


def _texts(name: str, lines: Iterable[tuple[int, bytes]]) -> Iterator[str]:
    """Lines as text, for Python's reader of csv, which counts them."""
    at = 0
    for number, line in lines:
        at = at or number
        yield from ["\n"] * (number - at)
        yield text_of(name, number, line) + "\n"
        at = number + 1
