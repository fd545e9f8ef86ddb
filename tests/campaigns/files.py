"""Model files that were changed: refused, or models that learn and rank.

One of five has its bytes mutated. The others are right archives with right digests and wrong contents: fields of the header of
other types and values, arrays of other shapes, types, lengths and numbers. The seeds are files of all models and of services,
whose folders keep the same header and arrays, read by the same code.

What is loaded has to learn, rank and be saved. It may refuse queries by an error of this library; an error by NumPy, or by
Python for an operation that made no sense, counts as one that got through. Files are read and used in child processes, where a
crash is noticed; the runner asks numba to check indices there.
"""

import functools
import hashlib
import json
import random
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from online_rank import PerceptronRanker, StreamScaler, SwapRanker, serving
from online_rank.serving.protocol import RankingService
from online_rank.storage.files import ModelFileError, from_bytes, to_bytes
from tests.campaigns.children import Died, in_child
from tests.campaigns.found import Found
from tests.campaigns.hostile import HANG_SECONDS, at_most, changed, models, mutated
from tests.models import SERVED

#: Files for each child process: what a kernel writes out of bounds is noticed soon.
_A_CHILD = 200


class Seed(NamedTuple):
    """A file that is right, and what the model in it has to do."""

    name: str
    content: bytes
    acts: tuple[Callable[[Any], Any], ...]


@functools.cache
def seeds() -> tuple[Seed, ...]:
    """The files that are changed."""
    return (*_of_models(), *_of_services())


def _of_models() -> Iterator[Seed]:
    grades = [0, 1, 2, 1, 0]
    for content, x in models():
        yield Seed("model", content, _acts(x, grades))
    X = np.random.default_rng(0).normal(size=(5, 3))
    docs = {f"d{i}": dict(zip("abc", row, strict=True)) for i, row in enumerate(X.tolist())}
    for name, make in SERVED.items():
        model = make()
        y: Any = dict(zip(docs, grades, strict=True))
        for _ in range(4):
            model.learn_one(docs, model.show_one(docs).clicked(["d1"]) if model.abilities.draws else y)
        yield Seed(name, to_bytes(model), _acts(docs, y))


def _acts(x: Any, y: Any) -> tuple[Callable[[Any], Any], ...]:
    """Everything that a model is for."""

    def rank(model: Any) -> Any:
        return (model.rank_one(x), model.predict_one(x)) if hasattr(model, "rank_one") else model.transform_one(x)

    def learn(model: Any) -> Any:
        if getattr(getattr(model, "abilities", None), "draws", False):
            return model.learn_one(x, model.show_one(x).clicked([]))
        return model.learn_one(x, y)

    return rank, learn, learn, rank, lambda model: getattr(model, "last_round", None), to_bytes


def _of_services() -> Iterator[Seed]:
    def line(**fields: Any) -> bytes:
        return json.dumps(fields).encode()

    docs = {name: {"x": float(i), "y": 1.0 - i} for i, name in enumerate("abcd")}
    grades, clicks = {name: i % 3 for i, name in enumerate(docs)}, ["b"]
    plan = serving.FeedbackPlan(window=30, events={"click": 1})
    for name, model, given in (
        ("service", StreamScaler() | PerceptronRanker(), {}),
        ("service of clicks", SwapRanker(), {}),
        ("service with windows", PerceptronRanker(), {"plan": plan}),
        (
            "service with a challenger",
            PerceptronRanker(),
            {"challenge": serving.Challenge(StreamScaler() | PerceptronRanker())},
        ),
    ):
        service = RankingService(model, wait_bytes=8000, **given)
        feedback = {"clicks": clicks} if service.draws else {"grades": grades}
        for i in range(6):
            service.handle(line(id=i, docs=docs, ts=10 * i))
            if i < 4:
                service.handle(line(id=i, ts=10 * i + 1, **feedback))
        lines = [
            line(id="new", docs=docs, ts=100), line(id=5, ts=101, **feedback), line(id="new", ts=102, **feedback),
            line(cmd="stats"), line(id="later", docs=docs, ts=200),
        ]  # fmt: skip
        acts = [functools.partial(_handled, line=each) for each in lines]
        yield Seed(name, to_bytes(service), (*acts, to_bytes))


def _handled(service: Any, line: bytes) -> Any:
    return json.dumps(service.handle(line).answer, allow_nan=False)


def files(n: int, seed: int) -> Found:
    """Read and use `n` changed files."""
    total = Found(files=n)
    seeds()
    for first in range(0, n, _A_CHILD):
        count = min(_A_CHILD, n - first)
        try:
            total.add(in_child(functools.partial(_read_and_use, count, f"{seed} {first}")))
        except Died as error:
            total.wrong.append(f"files {first}.. of seed {seed}: {error}")
    return total


def _read_and_use(n: int, seed: str) -> Found:
    rng, found = random.Random(seed), Found()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for number in range(n):
            chosen = rng.choice(seeds())
            data = _mutated(chosen.content, rng) if rng.random() < 0.2 else changed(chosen.content, rng)
            try:
                with at_most(HANG_SECONDS):
                    model = from_bytes(data)
            except ModelFileError:
                found.count(refused=1)
                continue
            except Exception as error:
                found.wrong.append(f"{chosen.name}, file {number} of {seed!r}, loading: {error!r}")
                continue
            found.count(loaded=1)
            for i, act in enumerate(chosen.acts):
                try:
                    with at_most(HANG_SECONDS):
                        act(model)
                except Exception as error:
                    if not is_own(error):
                        at = traceback.extract_tb(error.__traceback__)[-1]
                        place = f"{at.filename.rpartition('online_rank')[2]}:{at.lineno}"
                        found.wrong.append(f"{chosen.name}, file {number} of {seed!r}, act {i}: {error!r} at {place}")
                        break
    return found


def _mutated(content: bytes, rng: random.Random) -> bytes:
    """Mutated bytes; in half of them the digest is made good again, so that the checks behind it are reached."""
    data = mutated([content], rng)
    return data if rng.random() < 0.5 else data[:-64] + hashlib.sha256(data[:-64]).hexdigest().encode()


def is_own(error: Exception) -> bool:
    """Whether it is an error that this library raised, by a statement, about what it was given."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    return isinstance(error, ValueError | TypeError) and "online_rank" in at.filename and "raise" in (at.line or "")
