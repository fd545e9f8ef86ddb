"""The shipped alarms on scrapes of services: none on a quiet day of each mode, and its own after an input broke."""

import json
import shutil
import subprocess
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from river import preprocessing

from online_rank import AdditiveRanker, ClickCurves, CrossFeatures, ForEachDocument, PerceptronRanker, SwapRanker
from online_rank.serving import FeedbackPlan, RankingService
from online_rank.serving import clock as clock_module
from online_rank.serving import inputs as inputs_module
from online_rank.serving.challenge import from_today
from tests.reference import postgresql
from tests.serving.test_alerts import RULES
from tests.serving.test_readers import run

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="there is no promtool: apt-get install prometheus")
#: Scrapes, one a minute of the day that promtool sees, queries between two of them, and the minute when an input breaks.
MINUTES, QUERIES, BREAKS = 220, 5, 60
NUMBERS = ("score", "price")
#: What depends on the machine that runs the test.
OF_MACHINE = ("latency_seconds", "event_loop_delay", "process_", "python_")


@pytest.fixture
def clock(monkeypatch):
    """A function that sets how many seconds the clock of the services is ahead of the machine's."""
    ahead, monotonic, system = [0.0], clock_module._monotonic, clock_module._system
    monkeypatch.setattr(clock_module, "_monotonic", lambda: monotonic() + ahead[0])
    monkeypatch.setattr(clock_module, "_system", lambda: system() + ahead[0])
    return lambda seconds: ahead.__setitem__(0, seconds)


def document(rng):
    return {
        "score": float(rng.normal()), "price": float(rng.exponential()), "brand": f"brand {rng.integers(5)}",
        "published": f"2026-01-{rng.integers(1, 29):02d}", "contract": ["full time", "part time"][rng.integers(2)],
    }  # fmt: skip


def renamed(docs):
    return {d: {("prize" if name == "price" else name): value for name, value in x.items()} for d, x in docs.items()}


def without(docs, name):
    return {d: {each: value for each, value in x.items() if each != name} for d, x in docs.items()}


def today_service():
    today, challenge = from_today({"score": 1.0}, ClickCurves({"score": 1.0}), keep=0.95, k=3)
    return RankingService(today, challenge=challenge)


class Fault(NamedTuple):
    """What is different from a minute on: the documents of a query, its feedback, or what else is sent in a minute."""

    documents: Callable[[Any], Any] = lambda docs: docs
    feedback: Callable[[Any], Any] = lambda feedback: feedback
    sent: Callable[[Any, int], Any] | None = None
    late: bool = False


NOTHING = Fault()


def graded(model=None, **settings):
    return RankingService(AdditiveRanker(trees=0) if model is None else model, **settings)


def kept_elsewhere():
    return graded(CrossFeatures("user") | ForEachDocument(preprocessing.StandardScaler()) | PerceptronRanker())


def file_service():
    """A model of a file that looks at one of the features."""
    today, challenge = from_today({"score": 1.0}, PerceptronRanker.from_weights({"price": -1.0}), keep=0.95, k=3)
    return RankingService(today, challenge=challenge)


MAKE = {
    "graded": graded,
    "events": lambda: graded(plan=FeedbackPlan(window=5.0, events={"click": 1})),
    "clicks": lambda: RankingService(SwapRanker()),
    "from today": today_service,
    "a file against today": file_service,
    "readers": graded,
    "PostgreSQL": graded,
    "few wait": lambda: graded(wait_bytes=6_000),
    "kept elsewhere": kept_elsewhere,
}
QUIET = ("graded", "events", "clicks", "from today", "a file against today", "readers", "PostgreSQL")


async def refused(client, minute):
    assert (await client.post("/rank", {"id": f"odd {minute}", "docs": "none"}))[0] == 400


async def not_forgotten(client, minute):
    if minute == BREAKS:
        assert (await client.post("/forget", {"context": {"user": "u1"}}))[0] == 409


async def ranked_only(client, minute):
    rng = np.random.default_rng(minute)
    for i in range(40):
        docs = {d: {name: document(rng)[name] for name in NUMBERS} for d in "abcd"}
        assert (await client.post("/rank", {"id": f"only ranked {minute} {i}", "docs": docs}))[0] == 200


def any_grades(feedback):
    rng = np.random.default_rng(int(feedback["id"].partition(" ")[0][1:]))
    return {**feedback, "grades": dict(zip(feedback["grades"], rng.permutation([1, 0, 0, 0]).tolist(), strict=True))}


#: What becomes of a service once something breaks, and the alarm.
FAULTS = {
    ("from today", "a feature has another name"): (Fault(renamed), "UnknownFeatures"),
    ("from today", "a feature is missing"): (Fault(lambda docs: without(docs, "price")), "MissingFeatures"),
    ("from today", "the ranking of today is missing"): (Fault(lambda docs: without(docs, "score")), "MissingDeclared"),
    ("from today", "a feature has other values"): (
        Fault(lambda docs: {d: {**x, "price": 100.0 + x["price"]} for d, x in docs.items()}),
        "FeaturesDrift",
    ),
    ("from today", "a number becomes a text"): (
        Fault(lambda docs: {d: {**x, "price": f"{x['price']:.2f} EUR"} for d, x in docs.items()}),
        "OddValues",
    ),
    ("from today", "a category becomes a number"): (
        Fault(lambda docs: {d: {**x, "contract": 3} for d, x in docs.items()}),
        "OddValues",
    ),
    ("graded", "a number becomes a text"): (
        Fault(lambda docs: {d: {**x, "price": f"{x['price']:.2f} EUR"} for d, x in docs.items()}),
        "OddValues",
    ),
    ("a file against today", "a feature is missing"): (Fault(lambda docs: without(docs, "price")), "MissingFeatures"),
    ("graded", "a feature has another name"): (Fault(renamed), "UnknownFeatures"),
    ("graded", "a feature is missing"): (Fault(lambda docs: without(docs, "price")), "MissingFeatures"),
    ("graded", "no feedback comes"): (Fault(feedback=lambda feedback: None), "LearnsNothing"),
    ("graded", "users want something else"): (Fault(feedback=any_grades), "LossHasRisen"),
    ("graded", "a client sends what is refused"): (Fault(sent=refused), "RefusesRequests"),
    ("events", "windows end before feedback comes"): (Fault(late=True), "FeedbackIsLate"),
    ("few wait", "queries are forgotten before feedback comes"): (Fault(sent=ranked_only), "ForgetsQueries"),
    ("kept elsewhere", "a model keeps what is to be forgotten"): (Fault(sent=not_forgotten), "CannotForget"),
}


def scraped(mode, fault, clock, **settings):
    """What each minute's scrape of the learner and of a reader has: {series: values}."""
    rng, found = np.random.default_rng(1), {}

    async def scrape(client, name, minute):
        for line in (await client.http.get("/metrics")).text.splitlines():
            if line.startswith("#") or any(each in line for each in OF_MACHINE):
                continue
            series, _, value = line.rpartition(" ")
            bare, _, labels = series.partition("{")
            whole = f'{bare}{{instance="{name}",job="online_rank"{"," if labels else ""}{labels or "}"}'
            found.setdefault(whole, ["_"] * minute).append(value)

    async def learn(client, feedback):
        status, answer = await client.post("/learn", feedback)
        assert status == 200, answer

    async def scenario(learner, link, *readers):
        ranks, waiting = readers[0] if mode == "readers" else learner, []
        for minute in range(MINUTES):
            clock(60.0 * minute)
            now = fault if minute >= BREAKS else NOTHING
            for feedback in waiting:
                await learn(ranks, feedback)
            waiting.clear()
            if now.sent:
                await now.sent(ranks, minute)
            for i in range(QUERIES):
                docs = {d: document(rng) for d in "abcd"}
                if mode in ("clicks", "few wait", "kept elsewhere"):
                    docs = {d: {name: x[name] for name in NUMBERS} for d, x in docs.items()}
                docs = now.documents(docs)
                query, good = f"q{minute} {i}", max(docs, key=lambda d: docs[d].get("score", 0.0) + rng.normal())
                context = {"context": {"user": f"u{i}"}} if mode == "kept elsewhere" else {}
                status, answer = await ranks.post("/rank", {"id": query, "docs": docs, **context})
                assert status == 200, answer
                given = {"grades": {d: int(d == good) for d in docs}}
                if mode in ("clicks", "from today", "a file against today"):
                    given = {"clicks": [good] if good in answer["ranking"][: answer["shown"]] else []}
                if mode == "events":
                    given = {"event": "click", "doc": good}
                if (feedback := now.feedback({"id": query, **given, "session": query})) is None:
                    continue
                if now.late:
                    waiting.append(feedback)
                else:
                    await learn(ranks, feedback)
            await scrape(learner, "learner", minute)
            for reader in readers if mode == "readers" else ():
                await scrape(reader, "reader", minute)

    run(scenario, MAKE[mode], n_readers=int(mode == "readers"), **settings)
    return found


def firing(found, folder):
    """The names of the alarms that fire at the end, or did at any minute, by promtool."""
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": " ".join(values)} for name, values in found.items()],
        "promql_expr_test": [
            {"expr": 'count by (alertname) (max_over_time(ALERTS{alertstate="firing"}[5h]))', "eval_time": f"{MINUTES - 1}m",
             "exp_samples": []}
        ],
    }  # fmt: skip
    (folder / "test.yml").write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run(["promtool", "test", "rules", "test.yml"], cwd=folder, capture_output=True, text=True, timeout=120)
    said = done.stdout + done.stderr
    assert "parse" not in said, said
    return {part.partition('"')[0] for part in said.split('alertname="OnlineRank')[1:]}


@pytest.fixture(autouse=True)
def every_query(monkeypatch):
    monkeypatch.setattr(inputs_module, "_SECONDS_BETWEEN", 0.0)


@needs_promtool
@pytest.mark.slow
@pytest.mark.parametrize("mode", QUIET)
def test_no_alarm_on_a_quiet_day(mode, clock, tmp_path):
    if mode != "PostgreSQL":
        assert firing(scraped(mode, NOTHING, clock), tmp_path) == set()
        return
    if postgresql.programs() is None:
        pytest.skip("needs PostgreSQL's programs: apt-get install postgresql")
    with postgresql.running() as database:
        assert firing(scraped(mode, NOTHING, clock, directory=database.address), tmp_path) == set()


@needs_promtool
@pytest.mark.slow
@pytest.mark.parametrize(("mode", "what"), FAULTS)
def test_what_breaks_raises_its_alarm_and_no_other(mode, what, clock, tmp_path):
    fault, alarm = FAULTS[mode, what]
    assert firing(scraped(mode, fault, clock), tmp_path) == {alarm}
