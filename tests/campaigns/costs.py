"""What requests cost beyond their weight, over all models: the worst that were found, for each kind of request.

A request may cost 16 kB and a millisecond, and the time that the model itself needs for a query of that shape. It may cost the
memory of a request with two documents of a known and a new feature (learning may copy a model's state), and two of the arrays
that `online_rank.limits` grants to any request. For new features it may cost what the limits grant to any request, twice if it
is learned. The rest is divided by the size of the request. Each request is answered in a fork of this process, where everything
it needs is loaded and compiled; its time is the least of three, if the first is not little, and its resident memory if that is
much. The lines of `stream` and the bodies of `/rank`, `/learn` and `/explain` go through the same `handle`.
"""

import contextlib
import copy
import functools
import gc
import json
import resource
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from msgspec import UNSET

from online_rank import limits
from online_rank.base import parts_of
from online_rank.query import read_query
from online_rank.serving import Challenge, FeedbackPlan
from online_rank.serving.messages import BINARY_BEGINS
from online_rank.serving.protocol import RankingService
from online_rank.serving.queries import arrays_of, cells_allowed
from online_rank.serving.reading import read
from tests.campaigns.children import Died, in_child
from tests.campaigns.found import Found
from tests.models import REGISTRY, SERVED, is_ranker

#: What every request may cost: bytes, and seconds.
FIXED_BYTES, FIXED_SECONDS = 16_384, 0.001
#: Size of the requests, in bytes; and of those to models that know many features.
SIZE, SIZE_WIDE = 100_000, 20_000
#: Seconds for each byte, beyond the model's own, below which a time is not measured again.
_LITTLE = 0.25e-6

#: Bytes for each byte, beyond what is granted, above which resident memory is measured again.
_MUCH = 50
#: Resident memory that a fork takes for any first request.
_NOISE = 1 << 20
#: What models are called that know many features.
WIDE = ", of 2,000 features"


class RequestCost(NamedTuple):
    """What a request costs.

    Attributes
    ----------
    model, what
        The model, and the request.
    size
        Its bytes.
    refused
        Why it was refused; None where it was not.
    bytes_a_byte
        Memory beyond the fixed cost.
    seconds_a_mb
        Processor time beyond the fixed cost and the model's own.
    own_seconds
        The model's own.
    """

    model: str
    what: str
    size: int
    refused: str | None
    bytes_a_byte: float
    seconds_a_mb: float
    own_seconds: float


#: What docs/safety.md grants to a request: bytes of memory for each of its bytes, and seconds of the processor for each MB.
_MOST_BYTES, _MOST_SECONDS = 64.0, 1.0


def costs(number: int, of: int) -> Found:
    """One of `of` parts of all services: no request that is answered takes more than docs/safety.md grants it."""
    found = Found()
    for each in request_costs(lambda service, _: service % of == number):
        found.count(requests=1, refused=each.refused is not None)
        name = f"{each.model}: {each.what}, {each.size} bytes"
        found.expect(each.what != "all", f"{name}: {each.refused}")
        is_little = each.refused is not None or each.bytes_a_byte <= _MOST_BYTES
        found.expect(is_little, f"{name}: {each.bytes_a_byte:.1f} bytes a byte")
        found.expect(each.seconds_a_mb <= _MOST_SECONDS, f"{name}: {each.seconds_a_mb:.2f} s a MB")
    return found


def request_costs(chosen: Callable[[int, str], bool]) -> Iterator[RequestCost]:
    """The cost of each kind of request to the services of which number and name are chosen."""
    _warm_up()
    for number, (name, make) in enumerate(services().items()):
        if chosen(number, name):
            try:
                yield from in_child(functools.partial(_costs, name, make))
            except Died as error:
                yield RequestCost(name, "all", 0, str(error), float("inf"), float("inf"), 0.0)


@functools.cache
def _warm_up() -> None:
    """Load what the children need, once for all of them."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for name, make in services().items():
            if not name.endswith(WIDE):
                make()


def _costs(name: str, make: Callable[[], RankingService]) -> list[RequestCost]:
    """What one service needs for each kind of request; first it answers a small one of each, so that all is compiled."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        service = make()
        wide = name.endswith(WIDE)
        chosen = {what: asked for what, asked in kinds().items() if not wide or what.startswith(("rank", "learn"))}
        least: dict[bool, int] = {}
        for asked in chosen.values():
            small, other = asked(500), copy.deepcopy(service)
            for line in _filled_in(other, small):
                other.handle(line, at=11.0)
            _own_seconds(copy.deepcopy(service), small[0], small[-1])
        # Otherwise a collection that comes to pass in a fork looks at all objects of this process, and has their pages copied.
        gc.collect()
        gc.freeze()
        size = SIZE_WIDE if wide else SIZE
        return [RequestCost(name, what, *_cost(service, asked(size), asked(500), least)) for what, asked in chosen.items()]


def services() -> dict[str, Callable[[], RankingService]]:
    """Services, by name: of all rankers, of some with a window or a challenger, and of models that know many features."""
    found = SERVED | {name: make for name, make in REGISTRY.items() if "torch" not in name and is_ranker(make())}
    made: dict[str, Callable[[], RankingService]] = {}
    for name, make in found.items():
        made[name] = functools.partial(_prepared, make, 3)
        made[name + WIDE] = functools.partial(_prepared, make, 2000)
    window = {"plan": FeedbackPlan(window=30, events={"click": 1})}
    made["scaler | perceptron, windows"] = functools.partial(_prepared, found["scaler | perceptron"], 3, **window)
    return made | {
        "perceptron, challenged": lambda: _prepared(found["perceptron"], 3, challenge=Challenge(found["scaler | perceptron"]()))
    }


def _prepared(make: Callable[[], Any], n_features: int, **given: Any) -> RankingService:
    service = RankingService(make(), **given)
    for i in range(4):
        docs = {f"d{k}": {f"f{j}": float((i + j * k) % 5) for j in range(n_features)} for k in range(3)}
        if not i and n_features > 3 and not service.model.abilities.takes_context:  # More than a request may bring.
            with contextlib.suppress(ValueError, TypeError):
                y = service.model.show_one(docs).clicked(["d1"]) if service.draws else {"d0": 0, "d1": 1, "d2": 2}
                service.model.learn_one(docs, y)
        shown = service.handle(_line(id=f"before {i}", docs=docs, ts=i), at=float(i)).answer
        if "error" in shown:
            break
        feedback = {"clicks": ["d1"]} if service.draws else {"grades": {"d0": 0, "d1": 1, "d2": 2}}
        service.handle(_line(id=f"before {i}", ts=i, **feedback), at=float(i))
    return service


def _line(**fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _many(n_bytes: int, item: Callable[[int], tuple[str, Any]]) -> dict[str, Any]:
    """As many items as take about `n_bytes`."""
    found: dict[str, Any] = {}
    each = len(_line(**dict([item(10_000)]))) - 1
    for i in range(max(1, n_bytes // each)):
        name, value = item(i)
        found[name] = value
    return found


def _documents(limit: int, item: Callable[[int], dict[str, Any]]) -> Callable[[int], dict[str, Any]]:
    """Documents of about the given number of bytes; there may be 5,000."""
    return lambda n: _many(min(n, limit), lambda i: (str(i), item(i)))


#: Documents of a query of a given number of bytes, by what they are made of.
_DOCUMENTS: dict[str, Callable[[int], dict[str, Any]]] = {
    "documents without features": _documents(45_000, lambda i: {}),
    "documents with a feature": _documents(74_000, lambda i: {"f1": i % 9}),
    "documents with different features": _documents(94_000, lambda i: {f"g{i}": i % 9}),
    "two documents with many features": lambda n: {each: _many(n // 2, lambda i: (f"g{i}", 1)) for each in "ab"},
    "two documents with other features": (
        lambda n: {each: _many(n // 2, lambda i, each=each: (f"{each}{i}", 1)) for each in "ab"}
    ),
    "as many documents with different features as there may be": _documents(7_400, lambda i: {f"g{i}": i % 9}),
    "documents with forty features": _documents(1 << 30, lambda i: {f"f{j}": j for j in range(40)}),
    "long names of features": lambda n: {each: {each * (n // 2): 1} for each in "ab"},
    "long texts": lambda n: {each: {"f1": each * (n // 2)} for each in "ab"},
    "many texts": _documents(94_000, lambda i: {"f1": f"w{i}"}),
}
_FEW = {"a": {"f1": 1}, "b": {"f1": 2}}


def _columns(cells: str, n_features: int, first: str | None = None) -> Callable[[int], bytes]:
    """Documents in columns that hold the same cell everywhere, except in the first."""

    def line(n: int) -> bytes:
        d = min(n_features, n // 20)
        names = [f"f{j}" for j in range(d)]
        m = max(2, min((n - len(_line(n=names))) // (d * (len(cells) + 1) + 8), limits.MAX_DOCUMENTS))
        rows = [",".join([first if first and not i + j else cells for j in range(d)]) for i in range(m)]
        head = _line(id="x", features=names, documents=[str(i) for i in range(m)])
        return head[:-1] + f',"rows":[[{"],[".join(rows)}]]}}'.encode()

    return line


def _binary(n: int) -> bytes:
    """Documents in binary, all values missing but one."""
    m = min(n // 20, limits.MAX_DOCUMENTS)
    head = _line(id="x", features=["f0", "f1", "f2"], documents=[str(i) for i in range(m)])
    X = np.full((m, 3), np.nan, "<f4")
    X[0, 0] = 1.0
    return BINARY_BEGINS + head + b"\n" + X.tobytes()


#: Queries in columns of a given number of bytes.
_COLUMNS: dict[str, Callable[[int], bytes]] = {
    "columns of digits": _columns("1", 100),
    "columns of little but names": _columns("1", 1 << 30),
    "columns of numbers, one of them a text": _columns("1", 100, '"text"'),
    "columns of missing values": _columns("null", 100),
    "columns of missing values, and a text": _columns("null", 100, '"text"'),
    "columns of empty rows": _columns("", 0),
    "binary": _binary,
}


def kinds() -> dict[str, Callable[[int], list[bytes]]]:
    """Requests of about a given number of bytes, by name; where there are several lines, the last one is measured."""
    found: dict[str, Callable[[int], list[bytes]]] = {}
    for what, docs in _DOCUMENTS.items():
        found[f"rank, {what}"] = lambda n, docs=docs: [_line(id="x", docs=docs(n))]
        found[f"learn, {what}"] = lambda n, docs=docs: [_line(id="x", docs=docs(n)), b"feedback"]
        found[f"teach, {what}"] = lambda n, docs=docs: [_taught(docs(n))]
        if what.startswith("documents with "):
            found[f"explain, {what}"] = lambda n, docs=docs: [_line(id="x", docs=docs(n), explain=[*docs(n)][:2])]
    for what, line in _COLUMNS.items():
        found[f"rank, {what}"] = lambda n, line=line: [line(n)]
        if what != "binary":
            found[f"teach, {what}"] = lambda n, line=line: [_taught_in_columns(line(n))]
    forty = _DOCUMENTS["documents with forty features"]
    fields: dict[str, Callable[[int], dict[str, Any]]] = {
        "a run of many documents": lambda n: {"runs": {"r": [[str(i), 1] for i in range(min(n // 11, 5000))]}},
        "runs of a document": lambda n: {"runs": _many(n, lambda i: (str(i), [["a", 1]]))},
        "runs of different documents": lambda n: {"runs": _many(min(n, 90_000), lambda i: (str(i), [[str(i), 1]]))},
        "a context of many fields": lambda n: {"docs": _FEW, "context": _many(n, lambda i: (f"c{i}", "v"))},
        "a user and forty features": lambda n: {"docs": forty(n), "context": {"user": "u", "length": 2}},
        "a long context": lambda n: {"docs": _FEW, "context": {"user": "u" * n, "length": 1}},
        "an id": lambda n: {"docs": _FEW, "id": "x" * n},
    }
    for what, given in fields.items():
        found[what] = lambda n, given=given: [_line(**{"id": "x"} | given(n))]
    few = _line(id="x", docs=_FEW)[:-1]
    texts: dict[str, Callable[[int], bytes]] = {
        "meta": lambda n: few + b',"meta":[' + b"[]," * (n // 3) + b"0]}",
        "a long number": lambda n: b'{"id":"x","docs":{"a":{"f1":0.' + b"1" * n + b'},"b":{"f1":2}}}',
        "a long integer": lambda n: b'{"id":"x","docs":{"a":{"f1":' + b"1" * n + b'},"b":{"f1":2}}}',
        "escapes": lambda n: few + b',"meta":"' + rb"\u0000" * (n // 6) + b'"}',
        "half characters": lambda n: few + b',"meta":"' + rb"\ud800" * (n // 6) + b'"}',
        "brackets": lambda n: few + b',"meta":' + b"[" * n,
    }
    found |= {what: lambda n, text=text: [text(n)] for what, text in texts.items()}
    asked = _line(id="x", docs=_FEW)
    found["grades of unknown documents"] = lambda n: [asked, _line(id="x", grades=_many(n, lambda i: (str(i), 1)))]
    found["clicks on a document, again and again"] = lambda n: [asked, _line(id="x", clicks=["a"] * (n // 4))]
    found["grades of an unknown query"] = lambda n: [_line(id="y", grades=_many(n, lambda i: (str(i), 1)))]
    found["stats"] = lambda n: [_line(cmd="stats")]
    return found


def _taught(docs: dict[str, Any]) -> bytes:
    return _line(id="x", docs=docs, grades={name: i % 4 for i, name in enumerate(docs)})


def _taught_in_columns(line: bytes) -> bytes:
    grades = {name: i % 4 for i, name in enumerate(_asked(line))}
    return line[:-1] + b',"grades":' + json.dumps(grades, separators=(",", ":")).encode() + b"}"


def _asked(line: bytes) -> Any:
    """The documents of a request, `{document: {feature: value}}`; none of one that is refused."""
    with contextlib.suppress(ValueError):
        given = getattr(read(line), "given", {})
        return given if isinstance(given, Mapping) else {}  # Of feedback `given` is a method.
    return {}


def _feedback(service: RankingService, asked: bytes) -> bytes:
    """Feedback on a query: grades of all documents, or clicks on every other one that is shown."""
    ids = [*json.loads(asked)["docs"]]
    if service.draws:
        return _line(id="x", clicks=ids[::2])
    return _line(id="x", grades={name: i % 4 for i, name in enumerate(ids)})


def _cost(
    service: RankingService, lines: list[bytes], small: list[bytes], least: dict[bool, int]
) -> tuple[int, str | None, float, float, float]:
    """Size, refusal, bytes a byte, seconds a MB and the model's own seconds; `least` keeps what little requests take."""
    other = copy.deepcopy(service)
    *first, last = _filled_in(service, lines)
    service = copy.deepcopy(service)
    for line in first:
        service.handle(line, at=10.0)
    learns = any(field in last for field in (b'"grades":', b'"clicks":'))
    if learns not in least:
        least[learns] = _least(other, learns)
    size = sum(map(len, (*first, last)))
    answered = functools.partial(_answered, service, last, other, _filled_in(other, small))
    # The model's own work comes first, here: it loads what only large queries need. It is measured in forks, too: the first
    # change of a large state has its pages copied there.
    _own_seconds(copy.deepcopy(service), lines[0], last)
    alone = functools.partial(_own_seconds, service, lines[0], last)
    own, (seconds, resident) = in_child(alone), in_child(answered)
    if seconds - own > FIXED_SECONDS + _LITTLE * size:
        seconds = min(seconds, *(in_child(answered)[0] for _ in range(2)))
        own = min(own, *(in_child(alone) for _ in range(2)))
    learned = copy.deepcopy(service)
    answer, peak = _traced(learned, last)
    # What is learned of new features is copied, too, before it is changed.
    granted = _granted(service, lines[0]) + least[learns] + (1 + learns) * _granted_to_features(service, learned)
    if resident - _NOISE - FIXED_BYTES - granted > _MUCH * size:
        resident = min(resident, *(in_child(answered)[1] for _ in range(2)))
    taken = max(0, max(peak, resident - _NOISE) - FIXED_BYTES - granted)
    return size, answer.get("error"), taken / size, max(0.0, seconds - own - FIXED_SECONDS) / size * 1e6, own


def _traced(service: RankingService, line: bytes) -> tuple[dict[str, Any], int]:
    """The answer to a request, and the memory that Python and NumPy took for it."""
    tracemalloc.start()
    answer = service.handle(line, at=11.0).answer
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return answer, peak


def _granted(service: RankingService, asked: bytes) -> int:
    """Bytes of the two arrays that any request may have made of its documents."""
    docs = {}
    with contextlib.suppress(ValueError, RecursionError):
        fields = {} if asked.startswith(BINARY_BEGINS) else json.loads(asked)
        docs = {name: {of: 1} for of, run in fields.get("runs", {}).items() for name, _ in run} | dict(_asked(asked))
    n_features = len(set().union(*docs.values()))
    models = [service.model] if service.challenge is None else [service.model, service.challenge.model]
    arrays = (each for model in models for each in arrays_of(model, len(docs), n_features))
    return 16 * max((min(cells_allowed(0, known), cells) for _, cells, known in arrays), default=0)


def _granted_to_features(service: RankingService, learned: RankingService) -> int:
    """Bytes of what the new features of a request added to the models, as far as any request may add them."""
    both = zip(parts_of(service.model), parts_of(learned.model), strict=False)
    added = [old._added(new.n_features - old.n_features) for old, new in both if getattr(old, "_reader", None) is not None]
    return 8 * min(sum(added), limits.MAX_GROWTH)


def _least(service: RankingService, learns: bool) -> int:
    """Bytes that the service needs for two documents with a known and a new feature: to rank them, or to learn from them."""
    ask = _line(id="least", docs={name: features | {"new": 1} for name, features in _FEW.items()})
    learn = _line(id="least", **({"clicks": ["a"]} if service.draws else {"grades": {"a": 1, "b": 0}}))
    least, twin, line = copy.deepcopy(service), copy.deepcopy(service), ask
    if learns:
        least.handle(ask, at=10.0)
        line = learn
    _, resident = in_child(functools.partial(_answered, least, line, twin, [ask, learn]))
    return max(0, _traced(least, line)[1], resident - _NOISE)


def _filled_in(service: RankingService, lines: list[bytes]) -> list[bytes]:
    return [_feedback(service, lines[0]) if line == b"feedback" else line for line in lines]


def _answered(service: RankingService, line: bytes, other: RankingService, small: list[bytes]) -> tuple[float, int]:
    """Seconds and bytes that a request takes, after another service has loaded what small ones need."""
    for each in small:
        other.handle(each, at=11.0)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    service.handle(line, at=11.0)
    seconds = time.process_time() - start
    return seconds, 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


def _own_seconds(service: RankingService, asked: bytes, line: bytes) -> float:
    """What the model itself needs to score the query, and where feedback comes, to learn it."""
    with contextlib.suppress(ValueError, TypeError, AttributeError, RecursionError):
        message, model = read(asked), service.model
        learns = any(field in line for field in (b'"grades":', b'"clicks":'))
        context = None if message.context is UNSET else message.context
        query = read_query(message.given, context=context, documents=model.abilities.takes_documents)
        start = time.process_time()
        model.predict_one(query)
        if learns and service.draws:
            model.learn_one(query, model.show_one(query).clicked([]))
        elif learns:
            model.learn_one(query, [i % 4 for i in range(query.n_documents)])
        return time.process_time() - start
    return 0.0
