import base64
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest

from online_rank import AdditiveRanker, LossTracker, PerceptronRanker, evaluate, read
from online_rank.cli import main
from online_rank.cli.query_log import QueryLog
from online_rank.cli.report import write_report
from online_rank.metrics import metric

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture
def letor(tmp_path):
    rng = np.random.default_rng(0)
    lines = []
    for q in range(40):
        for i in range(8):
            x = rng.normal(size=3)
            grade = int(x[0] - x[1] + rng.normal() > 1.0)
            lines.append(
                f"{grade} qid:q<{q}> " + " ".join(f"{j + 1}:{v:.4f}" for j, v in enumerate(x)) + f" # docid = D&{q}-{i}"
            )
    path = tmp_path / "train.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def train(*arguments):
    with pytest.raises(SystemExit) as leaving:
        main(["train", *map(str, arguments)])
    return leaving.value.code


class Page(HTMLParser):
    """Headings, images, rows of tables, and everything that would be fetched or run."""

    def __init__(self, text):
        super().__init__()
        self.open, self.images, self.fetched, self.text = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "img"):
            self.open.append(tag)
        for name, value in attributes:
            if tag == "img" and name == "src":
                self.images.append(value)
            elif name in ("src", "href", "srcset", "action") or name.startswith("on"):
                self.fetched.append(value)
        assert tag not in ("script", "link", "iframe", "object")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.slow
def test_the_page_is_whole_and_fetches_nothing(letor, tmp_path, capsys):
    assert train(letor, "--ranker", "perceptron", "--test", letor, "--report", tmp_path / "out", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["report"] == str(tmp_path / "out" / "index.html")
    text = (tmp_path / "out" / "index.html").read_text()
    page = Page(text)
    assert (page.open, page.fetched) == ([], [])
    assert len(page.images) == 4
    for image in page.images:
        assert b"<svg" in base64.b64decode(image.removeprefix("data:image/svg+xml;base64,"))
    assert not re.search(r"url\(|@import", text)
    words = set(page.text)
    for heading in ("Figures", "Course", "Worst ranked", "Slowest", "Settings", "Run it again"):
        assert heading in words
    for value in (report["passes"][0]["metrics"]["ndcg@10"], report["test"]["metrics"]["ndcg@10"]):
        assert f"{value:.4f}" in words
    assert any(word.startswith("query q<") for word in words)
    assert any(word.startswith("D&") for word in words)


def test_watching_changes_nothing_of_the_run(letor, tmp_path, capsys):
    train(letor, "--json", "--save", tmp_path / "a.npz")
    plain = json.loads(capsys.readouterr().out)
    train(letor, "--json", "--save", tmp_path / "b.npz", "--report", tmp_path)
    watched = json.loads(capsys.readouterr().out)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert watched["passes"][0]["loss"] == plain["passes"][0]["loss"]
    assert watched["passes"][0]["metrics"]["ndcg@10"] == plain["passes"][0]["metrics"]["ndcg@10"]


class Few(QueryLog):
    window, kept = 7, 3


def test_the_log_keeps_the_worst_the_slowest_and_the_latest(letor):
    log = Few("ndcg@10")
    with read(letor, with_ids=True) as queries:
        evaluate.progressive(log.reading(queries), PerceptronRanker(), {"lately": log}, progress=False)
    model, ndcg, values = PerceptronRanker(), metric("ndcg@10"), []
    for X, y, qid, _ in read(letor, with_ids=True):
        values.append((ndcg.value_one(y, model.predict_one(X)), str(qid), len(values) + 1))
        model.learn_one(X, y)
    relevant = [entry for entry in values if not np.isnan(entry[0])]
    assert log.get() == pytest.approx(np.mean([value for value, *_ in relevant[-7:]]), abs=1e-15)
    # The first ten queries are left out.
    worst = sorted(entry for entry in relevant if entry[2] > 10)[:3]
    assert [(seen.value, seen.qid, seen.number) for seen in log.worst] == worst
    assert [seen.seconds for seen in log.slowest] == sorted((seen.seconds for seen in log.slowest), reverse=True)
    assert len(log.slowest) == 3


def test_the_log_shows_relevant_documents_that_were_missed():
    log = QueryLog("ndcg")
    scores, grades = [9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0], [0, 0, 0, 0, 1, 2, 1]
    queries = log.reading([(None, grades, "q", ["a", "b", "c", "d", "e", "f", ""])] * 11)
    for _ in queries:
        log.update(grades, scores)
    (seen,) = log.worst
    assert seen.top == (("a", 9.0, 0), ("b", 8.0, 0), ("c", 7.0, 0), ("d", 6.0, 0), ("e", 5.0, 1))
    assert seen.missed == (("f", 6, 4.0, 2),)


@pytest.mark.parametrize(
    ("n_features", "pictures"), [(3, 3), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((14, 4), (40, 5)))]
)
def test_curves_of_few_features_are_shown_in_one_picture(tmp_path, n_features, pictures):
    rng, model = np.random.default_rng(0), AdditiveRanker(trees=0)
    queries = [(rng.normal(size=(6, n_features)), rng.integers(0, 3, 6), f"q{t}", []) for t in range(15)]
    log = QueryLog("ndcg@10")
    trace = evaluate.progressive(log.reading(queries), model, {"ndcg@10": "ndcg@10"}, progress=False)
    figures = {"files": [], "measure": "ndcg@10", "features": n_features, "counted": 15, "passes": [trace.to_dict()]}
    path = write_report(tmp_path, figures=figures, settings={}, trace=trace, log=log, model=model, feature_names=["<b>"] * 2)
    page = Page(path.read_text())
    # Of the measure, the served loss and the cumulative loss; then the curves, 12 in each picture.
    assert len(page.images) == 3 + pictures - 2
    assert ("Further features" in page.text) == (n_features > 12)
    assert any("4 more features" in text for text in page.text) == (n_features == 40)


@pytest.mark.slow
def test_a_certificate_is_shown(tmp_path, letor):
    tracker, log = LossTracker(PerceptronRanker(), comparators={"truth": [1.0, -1.0, 0.0]}), QueryLog("ndcg@10")
    with read(letor, with_ids=True) as queries:
        trace = evaluate.progressive(log.reading(queries), tracker, {"ndcg@10": "ndcg@10", "lately": log}, progress=False)
    figures = {
        "files": [str(letor)],
        "measure": "ndcg@10",
        "features": 3,
        "counted": trace.n_queries,
        "passes": [trace.to_dict()],
    }
    path = write_report(
        tmp_path,
        figures=figures,
        settings={},
        trace=trace,
        log=log,
        model=tracker,
        certificate=tracker.certificate(),
    )
    page = Page(path.read_text())
    for check in tracker.certificate().bounds:
        assert check.statement in page.text
        assert f"{check.value:,.6g}" in page.text
    assert len(page.images) == 5


@pytest.mark.first(1)
@pytest.mark.parametrize("text", ["0 qid:1 1:0.5\n", "1 qid:1 1:0.5\n0 qid:1 1:0.2\n"], ids=["nothing to learn", "one query"])
def test_small_runs(tmp_path, text, capsys):
    (tmp_path / "few.txt").write_text(text)
    code = train(tmp_path / "few.txt", "--report", tmp_path / "out", "--quiet")
    out, err = capsys.readouterr()
    assert (code, out, err) == (0, "", "")
    assert Page((tmp_path / "out" / "index.html").read_text()).open == []


def test_a_run_without_queries_is_not_reported(tmp_path, capsys):
    (tmp_path / "none.txt").write_text("")
    assert train(tmp_path / "none.txt", "--report", tmp_path / "out", "--quiet") == 2
    assert "learn from" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_part_of_a_run_is_not_reported(letor, tmp_path, capsys):
    assert train(letor, "--report", tmp_path / "out", "--checkpoint", tmp_path / "c") == 2
    assert "leave out --checkpoint" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
def test_a_browser_shows_the_page(letor, tmp_path):
    train(letor, "--ranker", "perceptron", "--report", tmp_path / "out", "--quiet")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
    flags += ["--disable-background-networking", "--disable-component-update", f"--user-data-dir={tmp_path / 'profile'}"]
    page, picture = tmp_path / "out" / "index.html", tmp_path / "page.png"
    # A page of the test asks the report's pictures how large they are once drawn: a broken one is 0 wide.
    ask = (
        "<script>addEventListener('load', () => document.title = 'widths ' + "
        "[...document.images].map(i => i.complete ? i.naturalWidth : 0))</script>"
    )
    asking = tmp_path / "asking.html"
    asking.write_text(page.read_text().replace("</body>", ask + "</body>"))
    run = [CHROMIUM, *flags]
    dumped = subprocess.run(
        [*run, "--dump-dom", asking.as_uri()], capture_output=True, text=True, check=True, timeout=120
    ).stdout
    widths = re.search(r"<title>widths ([\d,]+)</title>", dumped)[1].split(",")
    assert len(widths) == 4
    assert all(int(width) > 400 for width in widths)
    subprocess.run([*run, f"--screenshot={picture}", page.as_uri()], capture_output=True, check=True, timeout=120)
    assert picture.stat().st_size > 10_000
