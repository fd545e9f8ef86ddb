"""Names of classes and functions of the user's own."""

import json
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from online_rank import LossTracker, extensions, load, register, save
from online_rank.bounds.comparators import is_only_measured
from online_rank.checks import check_ranker
from online_rank.metrics import metric
from online_rank.serving import RankingService
from online_rank.storage.files import from_bytes, to_bytes
from online_rank.stream import NoisyTeacher
from online_rank.stream.clicks import click_stream, user


def test_a_name_needs_a_dot_and_is_given_once():
    for name in ("focal", "a b.c", ".x", "x.", "river.x", "a." + "b" * 100):
        with pytest.raises(ValueError, match="with a dot in it"):
            register(name)
    with pytest.raises(TypeError, match="must be a string"):
        register(len)
    with pytest.raises(TypeError, match="a class or a function"):
        register("tests.number")(3)

    def one():
        pass

    def other():
        pass

    assert register("tests.one")(one) is one
    assert (extensions.registered("tests.one"), extensions.name_of(one)) == (one, "tests.one")
    with pytest.raises(ValueError, match=r"is the name of .*one already"):
        register("tests.one")(other)
    with pytest.raises(ValueError, match=r"has the name 'tests.one' already"):
        register("tests.two")(one)


def test_a_definition_that_is_run_again_takes_the_name():
    def define():
        @register("tests.again")
        def again():
            pass

        return again

    first, second = define(), define()
    assert extensions.registered("tests.again") is second
    assert extensions.name_of(first) is None


def test_what_is_registered_apart_meets_no_other_names():
    register("tests.before")(test_a_name_needs_a_dot_and_is_given_once)
    with extensions.no_names():
        register("tests.before")(len)  # the name is free, and so is the function
        register("tests.after")(test_a_name_needs_a_dot_and_is_given_once)
    assert extensions.registered("tests.before") is test_a_name_needs_a_dot_and_is_given_once
    assert (extensions.name_of(len), extensions.name_of(test_a_name_needs_a_dot_and_is_given_once)) == (None, "tests.before")
    with pytest.raises(ValueError, match=r"'tests\.after' is not registered"):
        extensions.registered("tests.after")


@pytest.mark.slow
def test_the_command_line_imports_modules(tmp_path):
    (tmp_path / "mine.py").write_text("print('imported')\n")
    command = [sys.executable, "-m", "online_rank", "--import", "mine", "warm-up", "--help"]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    assert subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.startswith("imported")
    command[4] = "no_such_module"
    failed = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (failed.returncode, "no_such_module" in failed.stderr) == (2, True)


PAGE = (Path(__file__).resolve().parents[1] / "docs" / "extending.md").read_text()
KINDS = "ranker|loss|measure|metric|click model|policy|stream"
EXAMPLES = dict(re.findall(rf"^## An? ({KINDS})\n.*?```python\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE))


@pytest.fixture(scope="module", params=EXAMPLES)
def example(request):
    """The names that an example of docs/extending.md defines; its `blank` is its model before it has learned anything."""
    made = types.ModuleType(f"extending_{request.param.replace(' ', '_')}")
    sys.modules[made.__name__] = made
    with extensions.no_names():
        exec(EXAMPLES[request.param], vars(made))
        made.blank = made.model.clone()
        yield made
    del sys.modules[made.__name__]


def lessons(example, model):
    """Queries, each with its grades, or with the clicks on what the model shows of it."""
    stream = getattr(example, "Coins", lambda n: NoisyTeacher(n_queries=n, n_features=4, n_documents=6))(20)
    who = getattr(example, "LastUser", lambda: user("navigational", max_grade=4))()
    return click_stream(stream, model, who) if model.abilities.takes_clicks else iter(stream)


def taught(example, model):
    """The model, after it has learned them."""
    for x, y in lessons(example, model):
        model.learn_one(x, y)
    return model


def answers(example, model):
    """What it says of queries, as numbers."""
    width = model.n_features
    return model.predict_many(np.random.default_rng(3).normal(size=(7, width))).tolist()


def test_there_are_seven_and_none_has_more_than_40_lines():
    assert list(EXAMPLES) == KINDS.split("|")
    assert max(code.count("\n") for code in EXAMPLES.values()) <= 40


def test_it_is_saved_loaded_and_continues(example, tmp_path):
    model = taught(example, example.blank.clone())
    save(model, tmp_path / "model.npz")
    read = load(tmp_path / "model.npz")
    assert answers(example, read) == answers(example, model)
    assert answers(example, taught(example, read)) == answers(example, taught(example, model))
    for name, settings in {"TopGrade": {}, "LastUser": {"seed": 3}, "EpsilonShuffle": {"k": 4}}.items():
        if hasattr(example, name):
            part = getattr(example, name)(**settings)
            save(part, tmp_path / "part.npz")
            assert vars(load(tmp_path / "part.npz")) == vars(part)


def test_it_is_tracked(example, tmp_path):
    alone, tracker = taught(example, example.blank.clone()), taught(example, LossTracker(example.blank))
    assert answers(example, tracker) == answers(example, alone)
    save(tracker, tmp_path / "tracker.npz")
    np.testing.assert_equal(load(tmp_path / "tracker.npz").totals, tracker.totals)
    assert tracker.totals.n_rounds == 20
    if is_only_measured(alone):
        with pytest.raises(ValueError, match=f"no bound covers a {type(alone).__name__}"):
            tracker.certificate()
    elif not alone.abilities.takes_clicks:
        beside = taught(example, LossTracker(example.blank, {"u": np.ones(alone.n_features)}))
        assert beside.certificate().holds


@pytest.mark.slow
def test_it_passes_the_checks(example):
    check_ranker(example.blank)


def test_it_is_served(example):
    alone = example.blank.clone()
    measure = "docs.top_grade" if hasattr(example, "TopGrade") else "ndcg@10"
    service = RankingService(example.blank.clone(), measure=measure)
    for t, (x, y) in enumerate(lessons(example, alone)):
        docs = {f"d{i}": {str(j): value for j, value in enumerate(row, start=1)} for i, row in enumerate(x.tolist())}
        ranked = service.handle(json.dumps({"id": t, "docs": docs}).encode()).answer["ranking"]
        if alone.abilities.takes_clicks:
            assert ranked[: len(y.impression.order)] == [f"d{i}" for i in y.impression.order]
            clicked = [f"d{i}" for i, gain in zip(y.impression.order, y.gains, strict=True) if gain]
            reply = service.handle(json.dumps({"id": t, "clicks": clicked}).encode())
        else:
            reply = service.handle(json.dumps({"id": t, "grades": {f"d{i}": int(g) for i, g in enumerate(y)}}).encode())
        assert reply.answer["learned"] is True, reply.answer
        alone.learn_one(x, y)
    assert answers(example, service.model) == answers(example, alone)
    copy = from_bytes(to_bytes(service))
    assert copy.stats() == service.stats()


def test_a_metric_is_known_by_its_registered_name():
    with pytest.raises(ValueError, match=r"'tests\.unknown' is not registered"):
        metric("tests.unknown")
    with extensions.no_names():
        register("tests.no_metric")(dict)
        with pytest.raises(TypeError, match="is the name of a dict, which is not a metric"):
            metric("tests.no_metric")
