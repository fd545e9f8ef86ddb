"""What a query costs in each form, next to packing and parsing the same values."""

import copy
import itertools
import json
import statistics
import struct
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
import numpy as np

from online_rank import AdditiveRanker
from online_rank.serving import RankingService
from online_rank.serving.queries import query_of
from online_rank.serving.reading import read

#: How many queries are learned, and how many are asked.
LEARNED, ASKED = 300, 20
#: The bytes of queries that wait in the service, and how many requests fill it: as long as it grows, they take new memory.
_WAIT_BYTES, _FILLING = 10_000_000, 600
_PACKED = ("struct.pack, the values from the dicts",)


class Way(NamedTuple):
    """A function of each of the queries, and the ways whose times it is compared with."""

    queries: Sequence[Any]
    act: Callable[[Any], Any]
    over: tuple[str, ...]


def cost_of_forms(m: int, d: int, turns: int) -> list[list[str]]:
    """Rows (way, microseconds, two ratios) of queries of m documents and d features."""
    rng = np.random.default_rng(0)
    ways = _ways(m, d, rng)
    taken = _medians(ways, turns, rng)
    rows = []
    for name, way in ways.items():
        ratios = [f"{taken[name] / taken[over]:.2f}" for over in way.over]
        rows.append([name, f"{1e6 * taken[name]:.0f}", *ratios, *[""] * (2 - len(ratios))])
    return rows


def _ways(m: int, d: int, rng: np.random.Generator) -> dict[str, Way]:
    import orjson  # Of the extra `bench`, which tests do without.

    names = [f"feature_{j}" for j in range(d)]
    model, named, without = AdditiveRanker(), AdditiveRanker(), AdditiveRanker(trees=0)
    for _ in range(LEARNED):
        X = rng.normal(size=(m, d))
        y = np.digitize(X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3], [0.0, 1.0])  # Features interact, so that trees serve.
        model.learn_one(X, y)
        for each in (named, without):
            each.learn_one(_dicts(names, X.tolist()), y)
    # Other queries each time: models keep what they computed of the last one.
    asked = [rng.normal(size=(m, d)) for _ in range(ASKED)]
    dicts, pack = [_dicts(names, X.tolist()) for X in asked], struct.Struct(f"{m * d}d").pack
    ways = {
        _PACKED[0]: Way(dicts, lambda docs: pack(*itertools.chain.from_iterable(map(dict.values, docs))), _PACKED),
        "rank_one of the array": Way(asked, model.rank_one, _PACKED),
        "rank_one of dicts": Way(dicts, named.rank_one, _PACKED),
        "rank_one of dicts, without trees": Way(dicts, without.rank_one, _PACKED),
        "learn_one of the array": Way(asked, partial(copy.deepcopy(model).learn_one, y=y), _PACKED),
        "learn_one of dicts": Way(dicts, partial(copy.deepcopy(named).learn_one, y=y), _PACKED),
    }
    service = RankingService(named, wait_bytes=_WAIT_BYTES)

    def as_block(body: bytes) -> None:
        query_of(service.needs, read(body), n_bytes=len(body))

    requests = _requests(names, [f"document {i}" for i in range(m)], asked)
    for number, (_, bodies) in zip(range(_FILLING), itertools.cycle(requests), strict=False):
        service.handle(bodies[number % ASKED].replace(b'"ID"', b'"first %d"' % number, 1))
    for form, bodies in requests:
        parsed: tuple[str, ...] = ()
        if form != "in binary":
            by_orjson, by_msgspec = parsed = f"orjson.loads, {form}", f"msgspec.json.decode, {form}"
            ways[by_orjson] = Way(bodies, orjson.loads, parsed)
            ways[by_msgspec] = Way(bodies, msgspec.json.decode, parsed)
        ways[f"to the block, {form}"] = Way(bodies, as_block, parsed)
        ways[f"request, {form}"] = Way(bodies, service.handle, parsed)
    return ways


def _dicts(names: list[str], rows: list[list[float]]) -> list[dict[str, float]]:
    return [dict(zip(names, row, strict=True)) for row in rows]


def _requests(names: list[str], ids: list[str], asked: list[np.ndarray]) -> list[tuple[str, list[bytes]]]:
    """The requests of each form, whose id is to be replaced."""

    def as_json(**fields: Any) -> bytes:
        return json.dumps({"id": "ID", **fields}, separators=(",", ":")).encode()

    in_columns = partial(as_json, features=names, documents=ids)
    found = [("in binary", [b"float32\n" + in_columns() + b"\n" + X.astype("<f4").tobytes() for X in asked])]
    for digits in (6, 17):
        rounded = [X.round(digits).tolist() for X in asked]
        by_document = [as_json(docs=dict(zip(ids, _dicts(names, rows), strict=True))) for rows in rounded]
        found.append((f"in columns, {digits} digits", [in_columns(rows=rows) for rows in rounded]))
        found.append((f"by document, {digits} digits", by_document))
    return found


def _medians(ways: dict[str, Way], turns: int, rng: np.random.Generator) -> dict[str, float]:
    """Processor seconds of each way: in a turn each has its queries in a row, in another order of ways each time."""
    taken, numbers = {name: list[float]() for name in ways}, itertools.count()
    for name in itertools.chain.from_iterable(rng.permutation([*ways]).tolist() for _ in range(turns)):
        for query in ways[name].queries:
            query = query.replace(b'"ID"', b"%d" % next(numbers), 1) if isinstance(query, bytes) else query
            start = time.process_time()
            ways[name].act(query)
            taken[name].append(time.process_time() - start)
    return {name: statistics.median(each) for name, each in taken.items()}
