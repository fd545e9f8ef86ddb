"""The alerts and the dashboard ask for figures that the service gives."""

import asyncio
import json
import pickle
import re
import time
from pathlib import Path

import numpy as np
import pytest

from online_rank import PerceptronRanker, RunFeatures, Runs, hybrid, measure
from online_rank.bounds import certificate_of
from online_rank.rankers.fixed import FixedRanker
from online_rank.serving import Models, RankingApp, RankingService
from online_rank.serving.monitor import Monitor
from online_rank.serving.replacing import keep_snapshot

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "monitoring"


@pytest.mark.parametrize("name", ["alerts.yml", "dashboard.json"])
def test_every_figure_that_is_asked_for_is_given(name):
    app = RankingApp(Models(lambda: RankingService(PerceptronRanker())))
    app.figures.requests.append(("/rank", 200, 0.01))
    given = set(re.findall(r"^(online_rank_\w+)", app.figures.text(), re.MULTILINE))
    asked = set(re.findall(r"\bonline_rank_\w+", (FOLDER / name).read_text())) - {"online_rank"}
    assert len(asked) > 5
    assert asked <= given


def test_what_a_single_answer_raises_an_alarm_for_is_counted_from_0():
    """Prometheus sees no increase of a counter that appears at 1."""
    rules = (FOLDER / "alerts.yml").read_text()
    watched = re.findall(r'requests_total{(?:path="(/\w+)",)?status=~?"([\d.|]+)"}\[\d+m\]\)+ > 0$', rules, re.MULTILINE)
    assert watched == [("/learn", "503"), ("", "500"), ("/forget", "409|5..")]
    text = RankingApp(Models(lambda: RankingService(PerceptronRanker()))).figures.text()
    begun = set(re.findall(r'^online_rank_requests_total{path="(/\w+)",status="(\d+)"} 0\.0$', text, re.MULTILINE))
    assert begun > {("/learn", "503"), ("/forget", "409"), ("/forget", "503"), ("/forget", "500"), ("/rank", "500")}


def test_what_alerts_watch_in_addition_to_requests(tmp_path, monkeypatch):
    """The clock, the journal and the model of the day."""

    async def main():
        app = RankingApp(Models(lambda: RankingService(PerceptronRanker()), directory=tmp_path, snapshots=7))
        (model,) = app.models.open_models.values()

        def figure(name):
            return float(re.search(rf"^online_rank_{name} (\S+)$", app.figures.text(), re.MULTILINE)[1])

        assert (figure("clock_step_seconds"), figure("snapshots_lacking"), figure("learning_stopped")) == (0.0, 1.0, 0.0)
        await keep_snapshot(model)
        assert figure("snapshots_lacking") == 0.0
        real = time.time
        monkeypatch.setattr("online_rank.serving.clock._system", lambda: real() - 3600.0)
        model.durable.service.handle(b'{"id": 1, "docs": {}}')
        assert figure("clock_step_seconds") == pytest.approx(-3600.0, abs=1.0)
        monkeypatch.undo()
        model.durable.service.handle(b'{"id": 2, "docs": {}}')
        assert figure("clock_step_seconds") == 0.0
        monkeypatch.setattr(model.commits, "failure", OSError("the disk is full"))
        assert figure("learning_stopped") == 1.0

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "json"])
def test_lines_of_the_log_have_levels(form, tmp_path):
    import subprocess
    import sys

    code = (
        "import logging\n"
        "from online_rank.cli.logs import log_to_stderr, say\n"
        "from online_rank.serving.trace import add_trace\n"
        f"say('before')\nlog_to_stderr({form!r}, 'info', of_request=add_trace)\n"
        "say('listening on \"x\"')\n"
        "log = logging.getLogger('online_rank.serving')\n"
        "log.error('not written: %s', 'full')\nlog.debug('nothing')\n"
    )
    first, *lines = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr.splitlines()
    assert first == "online-rank: before"
    if form == "text":
        assert lines == ['online-rank: listening on "x"', "online-rank: error: not written: full"]
        return
    told = [json.loads(line) for line in lines]
    assert [(each["level"], each["logger"], each["message"]) for each in told] == [
        ("info", "online_rank", 'listening on "x"'),
        ("error", "online_rank.serving", "not written: full"),
    ]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", each["time"]) for each in told)


def test_a_monitor_keeps_no_scores_of_rankings():
    """It kept the scores of 10,000 rankings, however long: 6.5 MB for each request."""
    service, monitor, sizes = RankingService(PerceptronRanker()), Monitor(), []
    for i in range(30):
        docs = {f"d{j}": {"x": j} for j in range(1000)}
        before = monitor.before_learning(service.model)
        monitor.learned(service.handle(json.dumps({"id": i, "docs": docs}).encode()), service.model, before)
        graded = service.handle(json.dumps({"id": i, "grades": dict.fromkeys(docs, 1)}).encode())
        monitor.learned(graded, service.model, before)
        sizes.append(len(pickle.dumps(vars(monitor))))
    assert max(sizes) < 20_000


def test_a_blend_is_certified_against_todays_rule():
    """The page told people to put a tracker around a model that keeps an account."""
    service, monitor, rng = RankingService(hybrid(["a", "b"])), Monitor(), np.random.default_rng(0)
    rule = RunFeatures(["a", "b"], parts=("minmax",)) | FixedRanker({"a minmax": 1.0, "b minmax": 1.0})
    lost = 0.0
    for i in range(30):
        lists = {name: dict(zip("uvwxyz", rng.normal(size=6).tolist(), strict=True)) for name in ("a", "b")}
        grades = {d: int(lists["a"][d] > 0.5) for d in "uvwxyz"}
        service.handle(json.dumps({"id": i, "runs": lists}).encode())
        by_rule = rule.predict_one(Runs(lists))
        lost += measure("ndcg@10").loss([by_rule[d] for d in "uvwxyz"], [*grades.values()], ties="pessimistic")
        monitor.learned(service.handle(json.dumps({"id": i, "grades": grades}).encode()), service.model, None)
    shown = monitor.shown(service.model)
    account, (_, total, bound) = shown["account"], shown["certified"][-1]
    assert account["favoured"] == pytest.approx(lost)
    assert total == account["served"] < lost
    assert account["excess"] == certificate_of(service.model).facts["serving_gap"] < 1.0
    assert total <= bound <= account["at_most"] < account["counted"] <= 30
    single = RankingService(PerceptronRanker())
    assert Monitor().shown(single.model)["account"] is None
