"""The live page."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import online_rank.serving
from online_rank import AdditiveRanker, BlendRanker, DirectRanker, PerceptronRanker, SwapRanker
from online_rank.serving import RankingService
from online_rank.serving.course import DAY, Today
from online_rank.serving.curves import copied, curves_of
from online_rank.serving.monitor import Monitor

PAGE = (Path(online_rank.serving.__file__).parent / "page.html").read_text()
STUB = Path(__file__).parent / "page_stub.js"
LONG = "https://shop.example.com/a/long/path/to/the/product"


def shown(*answers, key=None, token=None, width=400):
    """What the page shows after these answers of the server: text, and more, by id."""
    if shutil.which("node") is None:
        pytest.skip("Node.js runs the page's script")
    (script,) = re.findall(r"<script>(.*?)</script>", PAGE, re.DOTALL)
    given = {"script": script, "key": key, "token": token, "width": width, "answers": answers}
    done = subprocess.run(["node", str(STUB)], input=json.dumps(given), capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)


def told(model, n, feedback="grades"):
    """The data of the page after some queries."""
    service, monitor = RankingService(model), Monitor(clicks=feedback == "clicks")
    for i in range(n):
        monitor.shows_from = float("-inf")
        before = monitor.before_learning(service.model)
        docs = {f"{LONG}-{j}.html": {"x": float(j), "y": float(i % 3)} for j in range(3)}
        service.handle(json.dumps({"id": f"{LONG}?{i}", "docs": docs}).encode())
        given = [f"{LONG}-1.html"] if feedback == "clicks" else {name: int(name[-6] == "2") for name in docs}
        monitor.learned(service.handle(json.dumps({"id": f"{LONG}?{i}", feedback: given}).encode()), service.model, before)
    today = {**Today({}).figures({}), **service.counts()}
    return {"data": {**monitor.figures(service.stats()), **monitor.shown(service.model), "today": today, "journal_bytes": None}}


def test_a_wrong_token_or_key_is_no_lost_connection():
    page = shown({"status": 401, "error": "send the token"}, token="wrong")
    assert page["state"]["text"] == "this is not the token"
    assert (page["gate"]["hidden"], page["content"]["hidden"]) == (False, True)
    page = shown({"status": 404, "error": "query parameter shop: there is no model under this key"}, key="shop")
    assert page["state"]["text"] == "query parameter shop: there is no model under this key"
    assert page["key-label"]["text"] == "The value of the query parameter shop"
    assert not page["which"]["hidden"]


@pytest.mark.slow
def test_the_page_states_what_was_learned():
    begun = told(PerceptronRanker(), 0)
    assert "Nothing has been learned yet" in shown(begun)["chart-loss"]["text"]
    begun["data"]["stats"]["learned"] = 5  # By a process before.
    assert "No feedback since this process began" in shown(begun)["chart-loss"]["text"]
    one = shown(told(PerceptronRanker(), 1))
    assert "One query has been learned" in one["chart-loss"]["text"]
    assert "Learned: x" in one["queries"]["text"]
    # For models without weights, the page showed a loss and stated that nothing was to be learned.
    network = shown(told(DirectRanker(), 1))["queries"]["text"]
    assert re.search(r"loss 0\.\d+", network)
    assert "no weights to show" not in network


def test_long_names_leave_room_and_differ():
    page = shown(told(PerceptronRanker(), 1))["queries"]
    assert re.search(re.escape(f"Query {LONG}?0") + r"loss 0\.\d", page["text"])
    assert {f"{LONG}-{j}.html" for j in range(3)} <= {*page["titles"]}


def test_a_chart_has_several_ticks_and_cards_without_content_are_hidden():
    page = shown(told(PerceptronRanker(), 97), width=400)
    assert len(page["chart-loss"]["below"]) >= 3
    hidden = {name for name, each in page.items() if name.endswith("-card") and each["hidden"]}
    assert hidden == {"who-card", "inputs-card", "certificate-card", "bias-card", "curves-card", "decisions-card"}
    begun = shown(told(PerceptronRanker(), 0))
    assert all(each["hidden"] for name, each in begun.items() if name.endswith("-card"))


def test_a_day_begins_with_the_counts_before_its_first_request(monkeypatch):
    now, counts = [10 * DAY - 60.0], {"ranked": 5}
    monkeypatch.setattr("online_rank.serving.course.CLOCK.now", lambda: now[0])
    today = Today(dict(counts))
    for moved, since, ranked in ((0.0, now[0], 1), (120.0, 10 * DAY, 1), (60.0, 10 * DAY, 2), (2 * DAY, 12 * DAY, 1)):
        now[0] += moved
        today.begin(dict(counts))
        counts["ranked"] += 1
        assert today.figures(counts) == {"since": since, "ranked": ranked}


def test_decisions_are_shown_the_latest_first_with_the_challenger():
    answer = told(PerceptronRanker(), 3)
    compared = {
        "n": 7,
        "difference": 0.25,
        "interval": [-0.5, 1.0],
        "level": 0.95,
        "promote_at": None,
        "share": 0.5,
        "turns": 1,
    }
    answer["data"]["stats"]["challenger"] = compared
    monitor = Monitor()
    for text in ("promoted: a", "rolled back"):
        monitor.decided(text)
    answer["data"]["today"] |= {"drawn": 4, "kept": 3.0}
    answer["data"]["decisions"] = [[86_400.0, text] for _, text in monitor.decisions]
    page = shown(answer)
    assert page["decisions"]["text"] == "1970-01-02 00:00 rolled back1970-01-02 00:00 promoted: a"
    assert page["challenger-text"]["text"] == "+0.2500 a query, 95 % interval −0.5000 to +1.0000 at any time, 7 queries"
    assert "changed places once" in page["challenger-note"]["text"]
    answer["data"]["stats"]["challenger"] = {**compared, "n": 0, "failed": 12, "failure": "x: feature 'brand' is a text"}
    assert shown(answer)["challenger-text"]["text"] == (
        "no query compared yet; the model that waits could not rank or learn a query 12 times: x: feature 'brand' is a text"
    )
    assert "Since" in page["today-note"]["text"]
    assert page["today"]["text"] == "lists shown3learned3of the greedy DCG kept, at least0.750"


def test_who_serves_and_what_inputs_lacked_are_shown():
    answer = told(PerceptronRanker(), 3)
    found = {name: {} for name in ("declared", "missing", "unknown")}
    answer["data"]["models"] = {"serving": {"name": "today", "since": 0.0, "why": "promoted: a"}, "waiting": "learner"}
    answer["data"]["inputs"] = {**found, "queries": 3, "unknown_levels": 0, "last": {}}
    page = shown(answer)
    assert (page["who-card"]["hidden"], page["inputs-card"]["hidden"]) == (False, True)
    assert page["who"]["text"] == "servestodaysince1970-01-01 00:00 UTCwhypromoted: awaitslearner"
    answer["data"]["inputs"] |= {"missing": {"x": 2}, "last": {"missing": 86_400.0}}
    page = shown(answer)
    assert not page["inputs-card"]["hidden"]
    assert page["inputs"]["text"] == "missingx (2); last 1970-01-02 00:00 UTC"


@pytest.mark.parametrize("n", [0, 1, 5, 97])
def test_figures_of_clicks_equal_clicks_from_the_start(n):
    answer = told(SwapRanker(), n, "clicks")
    page = shown(answer)
    served = answer["data"]["served"]
    assert page["recent-name"]["text"] == "First click lately"
    if n:
        assert page["recent"]["text"] == f"{served['recent']:.3f}"
        assert page["loss"]["text"] == f"{1 - served['mean']:.3f}"
        # An interval of nearly all that is possible says nothing.
        assert (says := served["upper"] - served["lower"] < 0.9) == (n == 97)
        between = f"95 % interval {1 - served['upper']:.3f} to {1 - served['lower']:.3f}, at any time"
        assert page["interval"]["text"] == (between if says else "too few for an interval")
    assert "1 − reciprocal rank of the first click: 0 where the first document was clicked" in page["loss-note"]["text"]


def test_every_name_is_declared_once():
    # A browser refuses the whole script otherwise, and the page stays empty.
    (script,) = re.findall(r"<script>(.*?)</script>", PAGE, re.DOTALL)
    declared = []
    for line in script.splitlines():
        if found := re.match(r"(?:async )?(?:function\*?|class) (\w+)", line):
            declared.append(found[1])
        elif line.startswith(("const ", "let ")):
            # Values have no commas at the top level of their line, but in brackets.
            flat = re.sub(r"\([^()]*\)|\[[^\[\]]*\]|`[^`]*`|\"[^\"]*\"", "", line)
            declared += re.findall(r"(?:^(?:const|let) |, )(\w+) =", flat)
    assert len(declared) > 20
    assert sorted(declared) == sorted(set(declared))


def test_curves_are_drawn_and_names_stay_text():
    model = AdditiveRanker()
    answer = told(model, 5)
    hostile = "<img src=x onerror=alert(1)>"
    for i in range(20):
        docs = [{f"f{k}": j + 0.1 * i for k in range(12)} for j in range(4)]
        for j, document in enumerate(docs):
            document |= {"x": None if j == i % 3 else float(j), hostile: hostile if j else "b"}
        model.learn_one(docs, [0, 1, 2, 1])
    page = shown(answer, {"json": curves_of(copied(model), 12)})
    assert (page["curves-card"]["hidden"], page["weights-card"]["hidden"]) == (False, True)
    assert page["more-curves"]["text"] == "More of 15 features"
    assert "% missing" in page["curves"]["text"]
    assert hostile in page["curves"]["titles"]
    assert "innerHTML" not in PAGE
    assert "No weight" not in page["queries"]["text"]
    plain = shown(told(PerceptronRanker(), 1))
    assert (plain["curves-card"]["hidden"], plain["weights-card"]["hidden"]) == (True, False)


@pytest.mark.parametrize(
    "make", [AdditiveRanker, lambda: BlendRanker([PerceptronRanker(), DirectRanker(), PerceptronRanker()])]
)
def test_weights_of_members_are_no_weights_of_features(make):
    # With fewer features than members the page ended in an IndexError.
    data = told(make(), 3)["data"]
    assert (data["weights"], [query["changes"] for query in data["queries"]]) == ([], [None] * 3)
