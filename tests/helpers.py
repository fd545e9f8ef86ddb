"""What tests share: streams of queries, blocks made of them, and the state of a model as values that compare bit for bit."""

import asyncio

import numpy as np
import pytest
from river import base, compose

from online_rank.base.schema import Derived, StateError, check_object, schema_of, settings_names
from online_rank.base.undo import all_or_nothing
from online_rank.cli import main
from online_rank.serving import service_state
from online_rank.stream.synth import NoisyTeacher

NAMES = ["a", "b", "c"]
MEASURES = ("ndcg@10", "ndcg@2", "ndcg", "ap", "ap>=2", "linear_ndcg")
#: Settings of `PerceptronRanker` whose pairs the reference finds one by one, and of `SlamRanker`.
SETTINGS = [
    {"credit": credit, "mass": mass, **margin}
    for credit in ("argmax", "spread")
    for mass in ("loss", "sqrt")
    for margin in ({}, {"relative_margin": 0.5})
]
SLAM_SETTINGS = [
    {"within_grade": within_grade, **step}
    for within_grade in ("mean", "document", "tight")
    for step in ({"learning_rate": 0.3}, {"learning_rate": 2.0, "margin": 0.5, "margin_scale": "grade"})
]


def random_queries(seed, n_queries=12, d=3, largest=9, grades=4, ties=True):
    """Short random queries; with `ties`, features are small integers, so that scores tie often."""
    rng = np.random.default_rng(seed)
    for _ in range(n_queries):
        m = int(rng.integers(0, largest + 1))
        X = rng.integers(-2, 3, (m, d)).astype(float) if ties else rng.normal(size=(m, d))
        yield X, rng.integers(0, grades, m)


def linear_queries(n=30, d=4, seed=0, most=12):
    """Queries whose grades follow a linear score with noise; some have one grade, or one document."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=d)
    queries = []
    for _ in range(n):
        X = rng.normal(size=(int(rng.integers(1, most)), d))
        queries.append((X, np.digitize(X @ u + rng.normal(size=len(X)), [0.0, 2.0])))
    return queries


def teacher_queries(n=30, d=3, seed=0):
    """Queries of up to 12 documents of three grades, some of them empty."""
    return list(NoisyTeacher(n, n_features=d, n_documents=(0, 12), grade_shares=(0.5, 0.3, 0.2), seed=seed))


def as_block(queries):
    """X, y and qid of queries in a row."""
    X, y = zip(*queries, strict=True)
    return np.concatenate(X), np.concatenate(y), np.repeat(np.arange(len(y)), [len(grades) for grades in y])


def as_dicts(X, y):
    """A query of the features `NAMES` as `{id: features}` and `{id: grade}`."""
    ids = [f"doc{i}" for i in range(len(y))]
    return (
        {i: dict(zip(NAMES, row, strict=True)) for i, row in zip(ids, X.tolist(), strict=True)},
        dict(zip(ids, y.tolist(), strict=True)),
    )


def state_of(value):
    """All state of a step or pipeline, comparable bit for bit."""
    if isinstance(value, compose.Pipeline):
        return [(name, state_of(step)) for name, step in value.steps.items()]
    if isinstance(value, base.Estimator):
        return [type(value), {name: state_of(part) for name, part in sorted(vars(value).items())}]
    if isinstance(value, dict):
        return {name: state_of(part) for name, part in value.items()}
    if isinstance(value, tuple | list):
        return [type(value), *map(state_of, value)]
    return (value.dtype.str, value.shape, value.tobytes()) if isinstance(value, np.ndarray) else repr(value)


def run_command(capsys, *arguments):
    """Exit status, output and errors of `online-rank`, run in this process."""
    with pytest.raises(SystemExit) as leaving:
        main([str(argument) for argument in arguments])
    return leaving.value.code, *capsys.readouterr()


async def until(condition):
    """Wait until tasks or threads have brought a condition about; however slow the machine is, for a minute at most."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


def mismatches(value):
    """The errors in the declaration of an object's class, one line for each attribute."""
    cls = type(value)
    schema = schema_of(cls)
    if schema is None:
        return [f"{cls.__name__} declares no _schema"]
    settings = settings_names(cls)
    found = [
        f"{cls.__name__}.{name} is neither a setting nor declared in _schema"
        for name in vars(value)
        if name not in schema and name not in settings
    ]
    found += [
        f"{cls.__name__}.{name} is declared in _schema but not set"
        for name, field in schema.items()
        if not isinstance(field, Derived) and not hasattr(value, name)
    ]
    try:
        check_object(value, cls.__name__)
    except StateError as error:
        found.append(str(error))
    return found


def let_wait(pending, query_id, query, n_bytes=0, at=None):
    """A query waits in `PendingQueries`, as a service lets it."""
    pending.require_room(n_bytes)
    crowded = pending.crowded_out(query_id, n_bytes, at)
    with all_or_nothing(pending) as changes:
        pending.put(changes, query_id, query, n_bytes, pending.next_number, crowded, at)
    pending.spill()


def give(pending, query_id, given, at, kind="", ungraded=None):
    """Feedback, grades or of another kind, comes for a query in `PendingQueries`; what is late moves the time alone."""
    with all_or_nothing(pending) as changes:
        if pending.placed(query_id, at) == "late":
            pending.advance(changes, at)
        else:
            pending.give(changes, query_id, given, kind, at, ungraded)


def leave(pending, query_id):
    """A query waits no longer in `PendingQueries`."""
    with all_or_nothing(pending) as changes:
        service_state.leave(pending, changes, query_id)


def closed(pending, at):
    """The ids of the queries in `PendingQueries` whose windows have ended by a time, with their totals; they wait no longer."""
    with all_or_nothing(pending) as changes:
        pending.advance(changes, at)
    found = []
    while (query_id := pending.next_closed()) is not None:
        found.append((query_id, pending.totals(query_id)))
        leave(pending, query_id)
    return found
