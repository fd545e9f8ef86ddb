"""Calls that campaigns interrupt: on all models, metrics, what waits for feedback, and services."""

import copy
import functools
import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
from river import utils

import online_rank
from online_rank import ClickPerceptron, HashedFeatures, PerceptronRanker, StreamScaler, SwapRanker
from online_rank.feedback import Impression, PositionBias
from online_rank.metrics import NDCG, OffPolicyValue, metric
from online_rank.query import Runs, SparseRows
from online_rank.rankers.click_trees import ClickTrees
from online_rank.serving import Challenge, FeedbackPlan, PendingQueries
from online_rank.serving.forgetting import forget
from online_rank.serving.messages import Forget
from online_rank.serving.protocol import RankingService
from tests.helpers import closed, give, leave, let_wait
from tests.models import SERVED

__all__ = ["Scenario", "Subject", "scenarios"]

Subject = Any
Act = Callable[[Subject], Any]


class Scenario(NamedTuple):
    """A call on something that learns.

    Attributes
    ----------
    subject
        What learns, past its first queries.
    act
        The call.
    go_on
        The next one.
    parts
        What of the call may be missing: functions that patch it away. All else is then complete.
    """

    subject: Subject
    act: Act
    go_on: Act
    parts: tuple[Callable[[], Any], ...] = ()


def scenarios() -> dict[str, Callable[[], Scenario]]:
    """What is interrupted, by name."""
    return {
        **{f"{name}: learn_one": functools.partial(_model, make, "learn") for name, make in SERVED.items()},
        **{f"{name}: learn_many": functools.partial(_model, make, "many") for name, make in SERVED.items()},
        **{f"{name}: growing": functools.partial(_model, make, "grow") for name, make in SERVED.items()},
        **{f"{name}: rank": functools.partial(_model, make, "rank") for name, make in SERVED.items()},
        **_others(),
    }


def _query(seed: int, m: int = 5, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d))
    return X, np.clip(np.round(X[:, 0] + 1.0), 0, 3).astype(np.int64)


def _named(seed: int, *new: str) -> tuple[dict[str, Any], dict[str, int]]:
    X, y = _query(seed)
    names = ("a", "b", "c")
    return (
        {f"d{i}": {**dict(zip(names, row, strict=True)), **dict.fromkeys(new, 1.0 + i)} for i, row in enumerate(X.tolist())},
        {f"d{i}": int(grade) for i, grade in enumerate(y)},
    )


def _learning(model: Any, seed: int, *new: str) -> Act:
    """Learns a query; where rankings are drawn, that one is drawn now."""
    docs, y = _named(seed, *new)
    feedback: Any = model.show_one(docs).clicked([next(iter(docs))]) if model.abilities.draws else y
    return lambda model: model.learn_one(docs, feedback)


def _learn_named(model: Any, seed: int, *new: str) -> None:
    _learning(model, seed, *new)(model)


def _model(make: Callable[[], Any], call: str) -> Scenario:
    model = make()
    clicks = model.abilities.draws
    for seed in range(7):
        _learn_named(model, seed)
    blocks = [_named(seed) for seed in (20, 21, 22)]
    rank = lambda model: (model.rank_one(_named(9)[0]), model.predict_one(_named(9)[0]))  # noqa: E731

    def go_on(model: Any) -> Any:
        _learn_named(model, 11, "later")
        return rank(model)

    if call == "rank":
        return Scenario(model, rank, go_on)
    if call == "grow":
        return Scenario(model, _learning(model, 8, "new", "newer"), go_on)
    if call == "learn" or clicks or model.abilities.takes_documents or model.abilities.takes_context:
        return Scenario(model, _learning(model, 8), go_on)
    X = pd.concat([pd.DataFrame(list(docs.values())) for docs, _ in blocks])
    y = [grade for _, grades in blocks for grade in grades.values()]
    qid = np.repeat(np.arange(3), 5)
    return Scenario(model, lambda model: model.learn_many(X, y, qid, w=[1.0, 2.5, 0.5]), go_on)


def _others() -> dict[str, Callable[[], Scenario]]:
    X, y = _query(1)
    X2, y2 = _query(2)
    rows = SparseRows(np.array([0, 1, 3, 4, 4, 5]), np.array([2, 0, 1, 1, 2], np.int32), np.array([5.0, 1.0, 2.0, 3.0, 1.0]), 3)
    clicks = Impression(("a", "b", "c"), logits=(0.0, 0.0, 0.0)).clicked(["b"])

    def on_arrays(make: Callable[[], Any], learn: Act) -> Callable[[], Scenario]:
        def made() -> Scenario:
            model = make()
            for seed in range(4):
                model.learn_one(*_query(seed))
            return Scenario(model, learn, lambda model: (model.learn_one(X2, y2), model.predict_one(X)))

        return made

    def one(model: Any) -> Any:
        return model.learn_one(X, y, 2.5)

    def many(model: Any) -> Any:
        return model.learn_many(np.concatenate((X, X2)), np.concatenate((y, y2)), [0] * 5 + [1] * 5)

    def sparse(model: Any) -> Any:
        return model.learn_one(rows, y)

    found = {
        "perceptron: weighted": on_arrays(PerceptronRanker, one),
        "perceptron: block": on_arrays(PerceptronRanker, many),
        "perceptron: sparse": on_arrays(PerceptronRanker, sparse),
        "gradient: sparse": on_arrays(lambda: online_rank.GradientRanker(), sparse),
        "direct: block": on_arrays(lambda: online_rank.DirectRanker((4,), seed=1), many),
        "direct: weighted": on_arrays(lambda: online_rank.DirectRanker((4, 3), seed=1), one),
        "scaler | direct: weighted": on_arrays(lambda: StreamScaler() | online_rank.DirectRanker((4,), seed=1), one),
        "clicks: tree": on_arrays(lambda: ClickTrees(depth=2, window=8, rate=10.0), many),
        "hashed: block": on_arrays(lambda: HashedFeatures(4) | PerceptronRanker(), many),
    }

    def clicked(make: Callable[[], Any]) -> Scenario:
        model = make()
        for seed in range(4):
            _learn_named(model, seed)
        return Scenario(model, _learning(model, 8), lambda model: model.rank_one(_named(9)[0]))

    def of(value: Any, act: Act) -> Callable[[], Scenario]:
        def made() -> Scenario:
            act(value)
            return Scenario(value, act, lambda value: (act(value), None)[1])

        return made

    def fused() -> Scenario:
        model = online_rank.hybrid(["a", "b"])
        runs = [Runs({"a": {"x": 3.0 + i, "y": 1.0}, "b": {"y": 2.0, "z": float(i)}}) for i in range(6)]
        grades = {"x": 0, "y": 2, "z": 1}
        for each in runs[:4]:
            model.learn_one(each, grades)
        new = Runs({"a": {"x": 3.0, "y": 1.0}, "b": {"x": 2.0, "z": 5.0}})
        return Scenario(model, lambda model: model.learn_one(new, grades), lambda model: model.rank_one(runs[5]))

    def explained(make: Callable[[], Any]) -> Scenario:
        made = _model(make, "rank")
        return made._replace(act=lambda model: model.explain_one(_named(9)[0], "d0", "d1"))

    blocks = np.concatenate((y, y2)), np.concatenate((X[:, 0], X2[:, 1])), [0] * 5 + [1] * 5
    return {
        **found,
        "swap: clicks": lambda: clicked(SwapRanker),
        "click perceptron: clicks": lambda: clicked(ClickPerceptron),
        "hybrid: runs": fused,
        "perceptron: explain": lambda: explained(lambda: StreamScaler() | PerceptronRanker()),
        "clicks: explain": lambda: explained(lambda: ClickTrees(depth=2, window=8, rate=10.0)),
        "metric: update": of(metric("ndcg@3"), lambda m: m.update([0, 2, 1], [0.3, 0.2, 0.1])),
        "metric: update_many": of(metric("ap"), lambda m: m.update_many(*blocks)),
        "metric: rolling": of(utils.Rolling(NDCG, 3, k=3), lambda m: m.update([0, 2, 1], [0.3, 0.2, 0.1])),
        "position bias": of(PositionBias(3), lambda m: m.update(clicks)),
        "value of another ranking": of(OffPolicyValue([0.5, 0.3, 0.2]), lambda m: m.update(clicks, ["b", "a", "c"])),
        **_pending(),
        **_services(),
    }


def _pending() -> dict[str, Callable[[], Scenario]]:
    def waiting(plan: FeedbackPlan | None) -> PendingQueries:
        pending = PendingQueries(max_bytes=3000, plan=plan)
        for i, name in enumerate("abc"):
            let_wait(pending, name, ("text", [0.5, 0.25], None), 1000, at=float(i))
        if plan is not None:
            give(pending, "b", {"x": 1.0}, 3.0)
            give(pending, "early", {"x": 2.0}, 3.0)
        return pending

    def go_on(pending: PendingQueries) -> Any:
        let_wait(pending, "f", ("text", [0.5], None), 1000, at=50.0)
        return pending.numbers().tolist(), pending.n_evicted, closed(pending, 60.0)

    plan = FeedbackPlan(window=100, events={"click": 1})
    acts: dict[str, tuple[FeedbackPlan | None, Act]] = {
        "put": (None, lambda p: let_wait(p, "d", ("text", [1.0], None), 2000, at=4.0)),
        "put again": (None, lambda p: let_wait(p, "b", ("text", [1.0], None), 2000, at=4.0)),
        "leave": (None, lambda p: leave(p, "b")),
        "windows, put": (plan, lambda p: let_wait(p, "d", ("text", [1.0], None), 2000, at=4.0)),
        "windows, early": (plan, lambda p: let_wait(p, "early", ("text", [1.0], None), 2000, at=4.0)),
        "windows, event": (plan, lambda p: give(p, "c", {"x": 1}, 5.0, "click")),
        "windows, early event": (plan, lambda p: give(p, "z", {"x": 1, "y": 2}, 5.0, ungraded=0)),
        "windows, late": (plan, lambda p: give(p, "a", {"x": 1}, 300.0)),
    }
    return {
        f"waiting: {name}": lambda plan=plan, act=act: Scenario(waiting(plan), act, go_on) for name, (plan, act) in acts.items()
    }


def _unable(challenge: Challenge, *_: Any) -> None:
    """The challenger has no memory to learn with."""
    challenge.n_failed += 1


def _services() -> dict[str, Callable[[], Scenario]]:
    def ask(query_id: Any, seed: int, **more: Any) -> bytes:
        return json.dumps({"id": query_id, "docs": _named(seed)[0], **more}).encode()

    def grade(query_id: Any, seed: int, **more: Any) -> bytes:
        return json.dumps({"id": query_id, "grades": _named(seed)[1], **more}).encode()

    def made(make: Callable[[], Any], act: bytes, challenge: Any = None, plan: FeedbackPlan | None = None) -> Scenario:
        rival = None if challenge is None else Challenge(challenge(), promote_at=0.95)
        service = RankingService(make(), wait_bytes=6000, plan=plan, challenge=rival)
        draws = service.draws
        for i in range(7):
            at = {} if plan is None else {"ts": 10.0 * i}
            shown = service.handle(ask(i, i, **at)).answer
            if i < 5:
                clicked = json.dumps({"id": i, "clicks": shown["ranking"][:1], **at}).encode()
                service.handle(clicked if draws else grade(i, i, **at))
        parts = []
        if rival is not None:
            parts.append(lambda: mock.patch.object(Challenge, "learn", _unable))
        if plan is not None:
            parts += [lambda most=most: mock.patch("online_rank.serving.windows._MOST_CLOSED", most) for most in (0, 1, 2)]
        arrived = time.time()  # The same each time, since queries wait by time.
        return Scenario(service, lambda service: service.handle(act, at=arrived), go_on, tuple(parts))

    def go_on(service: RankingService) -> Any:
        first = service.handle(ask("next", 12, ts=95.0)).answer
        return first, service.handle(json.dumps({"id": "x", "docs": _named(13)[0], "greedy": True}).encode()).answer

    def again(act: bytes) -> Scenario:
        """What a restart does."""
        scenario = made(learner, act)
        outcome = copy.deepcopy(scenario.subject).handle(act).outcome
        done = outcome.fields, outcome.number, outcome.waiting, outcome.feedback
        return scenario._replace(act=lambda service: service.replay(*done))

    learner = lambda: StreamScaler() | PerceptronRanker()  # noqa: E731
    window = FeedbackPlan(window=30, events={"click": 1})
    taught = json.dumps({"id": "t", "docs": _named(8)[0], "grades": _named(8)[1]}).encode()
    acts: dict[str, tuple[Any, ...]] = {
        "rank": (learner, ask("new", 8)),
        "rank again": (learner, ask(5, 8)),
        "learn": (learner, grade(5, 5)),
        "teach": (learner, taught),
        "learn twice": (learner, grade(4, 4)),
        "greedy": (learner, ask("g", 8, greedy=True)),
        "challenged, rank": (learner, ask("new", 8), PerceptronRanker),
        "challenged, learn": (learner, grade(5, 5), PerceptronRanker),
        "challenged, teach": (learner, taught, PerceptronRanker),
        "clicks, rank": (SwapRanker, ask("new", 8)),
        "clicks, learn": (SwapRanker, json.dumps({"id": 6, "clicks": ["d1"]}).encode()),
        "clicks of a user, learn": (SwapRanker, json.dumps({"id": 6, "clicks": ["d1"], "user": "u"}).encode()),
        "drafts, rank": (SwapRanker, ask("new", 8), SwapRanker),
        "drafts, learn": (SwapRanker, json.dumps({"id": 6, "clicks": ["d1"]}).encode(), SwapRanker),
        "windows, rank": (learner, ask("new", 8, ts=70.0), None, window),
        "windows, event": (learner, json.dumps({"id": 6, "event": "click", "doc": "d1", "ts": 71.0}).encode(), None, window),
        "windows, close": (learner, ask("new", 8, ts=92.0), None, window),
    }
    forgotten = made(learner, b"")._replace(act=lambda service: forget(service, Forget(ids=[5], context={"user": "c"})))
    return {
        **{f"service: {name}": functools.partial(made, *given) for name, given in acts.items()},
        **{f"service: {name} again": functools.partial(again, acts[name][1]) for name in ("rank", "learn", "teach")},
        "service: forget": lambda: forgotten,
    }
