"""`demo hybrid`: made-up documents in SQLite, retrievers, users who click, and the page."""

import asyncio
import contextlib
import json

import numpy as np
import pytest

from online_rank.cli import main
from online_rank.cli.demo_hybrid import model
from online_rank.cli.demo_search import Cranfield, MadeUp, search
from online_rank.stream.clicks import user

RUNS = MadeUp.runs


@pytest.fixture(autouse=True)
def no_data(monkeypatch):
    monkeypatch.delenv("ONLINE_RANK_DATA", raising=False)


def test_the_collection_has_what_it_says():
    for asked, _ in zip(MadeUp(1), range(20), strict=False):
        names = {name for known in asked.runs.documents.values() for name in known}
        assert names <= set(RUNS)
        assert {"body", "vector", "newest"} <= names
        assert {*asked.grades} == {*asked.runs.ids}
        assert {*asked.grades.values()} <= {0, 1, 2}
        assert max(asked.grades.values()) == 2
    again = [asked.text for asked, _ in zip(MadeUp(1), range(5), strict=False)]
    assert again == [asked.text for asked, _ in zip(MadeUp(1), range(5), strict=False)]


def test_clicks_teach_it_that_the_newest_is_no_better():
    learner, searched = model(RUNS, 0), MadeUp(0)
    who = user("navigational", max_grade=2, seed=0)
    for t, asked in zip(range(300), searched, strict=False):
        shown = learner.show_one(asked.runs)
        learner.learn_one(asked.runs, who.clicks(shown, asked.grades, t))
    ranker = learner["SwapRanker"]
    known = dict(zip(ranker.feature_names, ranker.served_weights / ranker.beginning, strict=True))
    assert known["newest minmax"] < min(known["title minmax"], known["body minmax"], known["vector minmax"])


def small_collection(folder):
    """Three documents and a question, in the files of Cranfield."""
    there = folder / "cranfield"
    there.mkdir()
    documents = [("1", "flow past a wing", "lift of wings"), ("2", "heat of slabs", "hot"), ("3", "wing", "other wings")]
    lines = [json.dumps({"id": i, "title": title, "body": body}) for i, title, body in documents]
    (there / "documents.jsonl").write_text("\n".join(lines))
    (there / "queries.jsonl").write_text(json.dumps({"id": "q", "text": "what is the lift of a wing ?"}))
    (there / "qrels.txt").write_text("q 0 1 4\nq 0 2 -1\n")
    return {"ONLINE_RANK_DATA": str(folder)}


def test_cranfield_where_it_is(tmp_path):
    assert type(search(0, {})) is MadeUp
    assert type(search(0, {"ONLINE_RANK_DATA": str(tmp_path)})) is MadeUp
    found = search(0, small_collection(tmp_path))
    assert type(found) is Cranfield
    assert found.best == 4
    for asked, _ in zip(found, range(3), strict=False):
        assert asked.text == "what is the lift of a wing ?"
        assert asked.grades["flow past a wing (1)"] == 4
        assert sum(asked.grades.values()) == 4
        # The stem of "wings" is "wing".
        assert {"body", "title", "vector"} == {*asked.runs.documents["flow past a wing (1)"]}
        assert "body" in asked.runs.documents["wing (3)"]


def test_in_a_pipe(capfd):
    with pytest.raises(SystemExit) as left:
        main(["demo", "hybrid", "--queries", "120"])
    out, _ = capfd.readouterr()
    assert left.value.code == 0
    assert all(name in out for name in (*RUNS, "today's fusion", "learned from clicks", "120 queries"))
    with pytest.raises(SystemExit) as left:
        main(["demo", "hybrid", "--clicks"])
    assert left.value.code == 2
    assert "leave out --clicks" in capfd.readouterr().err


def test_the_page_has_weights_beside_those_of_the_beginning():
    pytest.importorskip("starlette")
    from online_rank.cli import live_hybrid
    from online_rank.cli.serve import Place, make_app
    from online_rank.serving.protocol import RankingService

    app = make_app(lambda: RankingService(model(RUNS, 0)), Place(port=0))

    async def fed():
        done = asyncio.Event()
        feeding = asyncio.create_task(
            live_hybrid.feed(app, MadeUp(0), 0, 0.0, lambda number: done.set() if number == 30 else None)
        )
        await done.wait()
        feeding.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await feeding
        return app.models.open_models[""].snapshot()

    shown = asyncio.run(fed())
    assert {name for name, _ in shown["weights"]} == {f"{run} minmax" for run in RUNS}
    begun = np.array(shown["begun"])
    assert len(begun) == 4
    assert begun == pytest.approx(begun[0])
    assert begun[0] > 0.0
    assert [weight for _, weight in shown["weights"]] != shown["begun"]
    assert shown["stats"]["learned"] >= 30
