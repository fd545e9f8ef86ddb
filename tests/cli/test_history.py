"""`--history`: rates and ages as features, from a log to a service."""

import json

import pytest

from online_rank import load
from online_rank.cli import serve
from online_rank.cli.options import Place, Service
from online_rank.cli.service import maker

T = 1_760_000_000
LOG = ("log.csv", "--query", "query", "--grade", "grade", "--document", "document", "--event-time", "time")


@pytest.fixture
def run(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = ["query,document,time,user,brand,price,grade"]
    for t in range(12):
        lines += [f"q{t},d{(t + k) % 5},{T + 3600 * t},u{t % 2},b{k},{k}.5,{int(k == t % 2)}" for k in range(3)]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")

    return run


def test_a_log_is_learned_in_the_order_of_time_and_the_model_ranks_files_and_requests(run):
    options = ("--history", "document=1d", "--history", "user+brand", "--exclude", "user")
    code, _, err = run("train", *LOG, *options, "--save", "m")
    assert code == 0, err
    model = load("m")
    assert [step.n_keys for step in list(model.steps.values())[:2]] == [5, 6]
    assert model["History"]._at == T + 3600 * 11
    code, out, err = run("evaluate", "m", *LOG[:-2], "--json")
    assert code == 0, err
    assert json.loads(out)["queries"] == 12
    asked = {"id": 1, "docs": {f"d{k}": {"brand": f"b{k}", "price": 0.5} for k in range(3)}, "context": {"user": "u0"}}
    answers = answers_of(Service(model="m"), asked, {"id": 1, "grades": {"d0": 1, "d1": 0, "d2": 0}})
    assert answers[1]["learned"]


def answers_of(service, *requests):
    made = maker(service)()
    return [made.handle(json.dumps(request).encode()).answer for request in requests]


def test_a_new_service_takes_histories_and_how_places_are_examined(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theta.json").write_text("[1.0, 0.5]")
    made = maker(Service(history=["document"], examination="theta.json"))
    first, second = (next(iter(made().model.steps.values())) for _ in range(2))
    assert first is not second
    assert (str(first), first.examination) == ("History('document', half_life='7d')", (1.0, 0.5))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("train", *LOG, "--history", "brnd"), "no column 'brnd'"),
        (("train", *LOG[:-2], "--history", "brand"), "--history needs the time of each query, --event-time COLUMN; or"),
        (("train", *LOG[:-4], "--history", "document=9"), "History('document') needs the id of each document"),
        (("train", *LOG, "--history", "brand=0"), "--history brand=0: half_life is 0.0"),
        (("stream", "m", "--history", "brand"), "--history is for a new model"),
    ],
)
def test_impossible_settings_raise_errors_with_a_remedy(run, arguments, told):
    if arguments[0] == "stream":
        run("train", *LOG, "--save", "m", "-q")
    code, _, err = run(*arguments)
    assert code != 0
    assert told in " ".join(err.split())


def test_exports_name_the_fields_that_documents_need(run):
    run("train", *LOG, "--history", "brand", "--save", "m", "-q")
    code, _, err = run("export", "m", "--to", "c", "--out", "m.c")
    assert code == 0, err
    named = "the features brand 7d impressions, brand 7d rate, brand 7d age are kept by History: documents in a C99 header need"
    assert named in " ".join(err.split())


def test_a_service_that_begins_says_nothing_about_the_query_that_it_tries(recwarn):
    made = maker(Service(history=["user+brand"]))
    serve._app(made, Place(port=0), "")
    assert [str(told.message) for told in recwarn if "has a key" in str(told.message)] == []


def clicked_log(tmp_path, moved=True):
    """Lists of two of three documents, one an hour, in both orders; or of new documents in one order. The brand decides."""
    lines = ["query,document,position,click,time,user,brand,price"]
    for t in range(120):
        shown = [(t + k) % 3 for k in range(2)]
        shown = shown[:: -1 if moved and t // 3 % 2 else 1]
        names = [f"d{d if moved else 3 * t + d}" for d in range(3)]
        lines += [
            f"q{t},{names[d]},{place},{int(d == 1 and (place == 1 or t % 2))},{T + 3600 * t},u{t % 2},b{d},{d}.5"
            for place, d in enumerate(shown, start=1)
        ]
    (tmp_path / "clicks.csv").write_text("\n".join(lines) + "\n")
    return "clicks.csv", "--clicks", "moved", "--event-time", "time", "--history", "brand"


@pytest.mark.slow
def test_clicks_are_counted_by_the_examination_of_their_positions(run, tmp_path):
    (tmp_path / "theta").write_text("1 0.5")
    log = clicked_log(tmp_path)
    code, _, err = run("train", *log, "--exclude", "user", "--examination", "theta", "--save", "m", "-q")
    assert code == 0, err
    history = load("m")["History"]
    assert history.examination == (1.0, 0.5)
    assert history.n_keys == 3
    # b1 is clicked always at place 1, at place 2 half of the time; over .5 that is always, too.
    rates = {name: x["brand 7d rate"] for name, x in history.transform_one({b: {"brand": b} for b in ("b0", "b1")}).items()}
    assert rates["b1"] > 3 * rates["b0"]
    code, _, err = run("train", *log, "--exclude", "user", "--ranker", "additive", "--save", "n", "-q")
    assert code == 0, err
    assert load("n")["History"].examination[1] < 1.0


@pytest.mark.slow
def test_positions_of_a_log_without_movement_are_learned_before_a_history(run, tmp_path):
    log = clicked_log(tmp_path, moved=False)
    code, _, err = run("train", *log, "--history", "document+user=500", "--exclude", "user", "--save", "m")
    assert code == 0, err
    assert "how often positions are looked at is learned with the features first" in err
    first, second = list(load("m").steps.values())[:2]
    assert first.examination == second.examination
    assert first.examination[0] == 1.0
    assert second.by == ("document", "user")
    # The features may be categories alone: these were refused as texts.
    code, _, err = run("train", *log, "--features", "brand", "-q")
    assert code == 0, err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--passes", "2"), "--history counts each click once: leave out --passes"),
        (("--history", "brnd"), "no column 'brnd'"),
        (("--history", "brand=0"), "--history brand=0: half_life is 0.0"),
    ],
)
def test_a_history_of_clicks_that_cannot_be_counted_is_refused(options, told, run, tmp_path):
    code, _, err = run("train", *clicked_log(tmp_path), *options)
    assert code == 2
    assert told in err


def test_a_history_of_clicks_needs_times(run, tmp_path):
    log = clicked_log(tmp_path)
    code, _, err = run("train", *log[:3], *log[5:])
    assert code == 2
    assert "--history needs the time of each query" in err
