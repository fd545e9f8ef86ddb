"""`online-rank train --clicks`: a log of clicks in, a model out."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from online_rank import PerceptronRanker, load, save
from online_rank.base import ranker_of
from online_rank.cli.events import events_of
from tests.helpers import run_command

#: What each kind of log has in the column "propensity", if it has one, and its options.
CHANCE = {"above": "above", "place": "place"}
OPTIONS = {"moved": ("--topic", "topic")}


def log_of(moved, n=1200):
    """Lists of 4 of 6 documents, in random order or by a ranker that changes; users look at position p with probability 1/p."""
    rng, rows = np.random.default_rng(1), []
    for t in range(n):
        topic = int(rng.integers(30))
        quality = np.random.default_rng([topic, 7]).normal(size=6)
        order = (
            np.argsort(-quality + 0.7 * np.random.default_rng([topic, t % 3]).normal(size=6)) if moved else rng.permutation(6)
        )
        for place, d in enumerate(order.tolist()):
            clicked = place < 4 and rng.random() < (0.8 if quality[d] > 0 else 0.1) / (place + 1)
            chances = (1 / (6 - place), 1 / 6)
            x = quality[d] + 0.3 * rng.normal()
            rows.append(
                (f"r{t}", f"{topic}/{d}", place + 1 if place < 4 else None, "click" if clicked else None, *chances, x, topic)
            )
    return pd.DataFrame(rows, columns=["query", "document", "position", "click", "above", "place", "x", "topic"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs")
    random, moved = log_of(False), log_of(True)
    for origin in ("shuffled", "above", "place", "moved"):
        log = moved if origin == "moved" else random
        chance = {"propensity": log[CHANCE[origin]]} if origin in CHANCE else {}
        log.drop(columns=["above", "place"]).assign(**chance).to_csv(path / f"{origin}.csv")
    return path


def run(capsys, *arguments, command="train"):
    return run_command(capsys, command, *arguments)


@pytest.mark.parametrize(
    "origin", ["shuffled", *(pytest.param(origin, marks=pytest.mark.slow) for origin in ("above", "place", "moved"))]
)
def test_each_kind_of_log_is_learned(origin, folder, capsys):
    log, model = folder / f"{origin}.csv", folder / f"{origin}.model"
    code, out, err = run(
        capsys,
        str(log),
        "--clicks",
        origin,
        *OPTIONS.get(origin, ("--exclude", "topic")),
        "--event",
        "click=1",
        "--save",
        str(model),
        "--json",
    )
    assert code == 0
    # The index that `to_csv` added is no feature; the command prints the features.
    assert "1 features: x\n" in err
    assert "(unnamed) (the index of a pandas frame)" in err
    report = json.loads(out)
    frame = pd.read_csv(log)
    clicked = frame.click.eq("click")
    assert (report["lists"], report["documents"]) == (1200, 4800)
    assert report["clicked"] == frame[clicked]["query"].nunique()
    assert report["gain_first"] == pytest.approx(clicked[frame.position == 1].mean())
    if origin != "moved":
        # The first of a good ranking is clicked with probability .8 where it is good, which nearly every list has.
        value = report["value_first"]
        assert value["lower"] < 0.77 < value["upper"]
        assert value["lower"] > report["gain_first"]
    assert ("value_first" in report) == (origin != "moved")
    if origin == "moved":
        assert report["examination"] == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4], abs=0.06)
    assert load(model).rank_one({"bad": {"x": -1.0}, "good": {"x": 1.0}}) == ["good", "bad"]


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("origin", "named", "kind", "examination"),
    [
        ("shuffled", (), "StreamQuantileMap | SwapRanker", None),
        ("shuffled", ("--ranker", "additive"), "AdditiveRanker", (1.0,)),
        ("place", (), "AdditiveRanker", None),
        ("moved", ("--ranker", "perceptron", "--examination", "none"), "PerceptronRanker", (1.0,) * 20),
    ],
)
def test_the_model_of_a_log_by_its_origin_and_the_ranker_named(origin, named, kind, examination, folder, tmp_path, capsys):
    pd.read_csv(folder / f"{origin}.csv", index_col=0)[:1200].to_csv(tmp_path / "log.csv", index=False)
    given = ("--clicks", origin, *OPTIONS.get(origin, ("--exclude", "topic")), "--event", "click=1", *named)
    code, _, err = run(capsys, str(tmp_path / "log.csv"), *given, "--save", str(tmp_path / "m"), "--quiet")
    assert (code, err) == (0, "")
    model = load(tmp_path / "m")
    if "|" in kind:
        assert " | ".join(model.steps) == kind
    else:
        ranker = ranker_of(model)
        assert (type(ranker).__name__, type(ranker.learner).__name__) == ("ExaminedRanker", kind)
        assert ranker.examination == examination
    assert model.rank_one({"bad": {"x": -1.0}, "good": {"x": 1.0}}) == ["good", "bad"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--clicks", "above"], "no column 'propensity'"),
        (
            ["--clicks", "moved", "--position", "at", "--click", "hit", "--features", "y"],
            "no columns 'at', 'hit', 'y'; there are",
        ),
        (["-", "--clicks", "moved"], "a log of clicks is read several times: give a file in place of standard input"),
        (["--clicks", "shuffled", "--topic", "topic"], "--topic is for --clicks moved"),
        (["--clicks", "shuffled", "--examination", "none"], "--examination is for --clicks moved"),
        (["--examination", "none"], "--examination needs --clicks"),
        (["--feedback-window", "1h"], "--feedback-window needs --clicks"),
        (["--clicks", "shuffled", "--event", "buy=1"], "'click' in column 'click' has no value: events has 'buy'"),
        (["--clicks", "shuffled", "--measure", "map"], "--measure does not go with --clicks"),
        (["--clicks", "shuffled", "--grade", "x"], "--grade does not go with --clicks"),
        (["--topic", "topic"], "--topic needs --clicks"),
        (["--event", "click=1"], "--event needs --clicks"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message, folder, capsys):
    code, out, err = run(capsys, str(folder / "shuffled.csv"), *arguments)
    assert code == 2
    assert message in err
    assert out == ""


def test_a_log_without_chance_whose_documents_do_not_move_is_refused(tmp_path, capsys):
    rows = [(f"r{t}", f"d{d}", d + 1, int(d == t % 3), float(d)) for t in range(60) for d in range(3)]
    frame = pd.DataFrame(rows, columns=["query", "document", "position", "click", "x"])
    frame.to_csv(tmp_path / "log.csv", index=False)
    code, _, err = run(capsys, str(tmp_path / "log.csv"), "--clicks", "moved", "--save", str(tmp_path / "m"))
    assert code == 2
    assert "all 59 lists whose candidates came before are equal to the list before: the log is deterministic" in err
    assert not (tmp_path / "m").exists()
    # Where the examination is given, nothing has to move; those who look click one document after the other.
    (tmp_path / "looked").write_text("1 1")
    given = ("--clicks", "moved", "--examination", str(tmp_path / "looked"), "--json")
    code, out, err = run(capsys, str(tmp_path / "log.csv"), *given)
    assert (code, json.loads(out)["examination"]) == (0, [1.0, 1.0])
    assert "how often positions below 2 are examined is not known: clicks there count as clicks at position 2" in err


def test_events():
    assert events_of(["click=1", "a=b=2.5"]) == {"click": 1, "a=b": 2.5}
    for bad in ("click", "=1", "click=many", "click=nan"):
        with pytest.raises(ValueError, match="it is NAME=VALUE, such as click=1"):
            events_of([bad])
    with pytest.raises(ValueError, match="names 'click' twice"):
        events_of(["click=1", "click=3"])


@pytest.mark.slow
def test_a_log_in_two_files_is_the_log(folder, capsys):
    log = pd.read_csv(folder / "shuffled.csv", index_col=0)
    at = len(log) // 2 + 2  # Within a list.
    assert log["query"].iloc[at] == log["query"].iloc[at - 1]
    log[:at].to_csv(folder / "first.csv")
    log[at:].to_csv(folder / "second.csv")
    options = ("--clicks", "shuffled", "--exclude", "topic", "--event", "click=1", "--json")
    _, one, _ = run(capsys, str(folder / "shuffled.csv"), *options)
    _, two, _ = run(capsys, str(folder / "first.csv"), str(folder / "second.csv"), *options)
    one, two = json.loads(one), json.loads(two)
    assert one.pop("files") != two.pop("files")
    assert one == two


@pytest.fixture(scope="module")
def models(folder):
    good, bad = folder / "good.model", folder / "bad.model"
    model = PerceptronRanker()
    model.learn_one([{"x": 1.0}, {"x": -1.0}], [1, 0])
    save(model, good)
    worse = PerceptronRanker()
    worse.learn_one([{"x": 1.0}, {"x": -1.0}], [0, 1])
    save(worse, bad)
    return str(bad), str(good)


@pytest.mark.parametrize("origin", ["shuffled", *(pytest.param(each, marks=pytest.mark.slow) for each in ("place", "above"))])
def test_two_models_are_compared_by_a_log(origin, folder, models, capsys):
    given = [*models, str(folder / f"{origin}.csv"), "--clicks", origin, "--event", "click=2"]
    code, out, err = run(capsys, *given, "--json", command="compare")
    assert (code, err) == (0, "")
    report = json.loads(out)
    # By hand: lists that begin as the other ranker's, by the inverse of their probability, 1/6.
    log = pd.read_csv(folder / f"{origin}.csv")
    # Rows of lists of 6 documents, from the first place to the last.
    x, gains = log.x.to_numpy().reshape(-1, 6), log.click.eq("click").to_numpy(float).reshape(-1, 6)
    for path, sign in zip(models, (1, -1), strict=True):
        earned = 6 * (np.argmin(sign * x, axis=1) == 0) * gains[:, 0]
        about = report["values"][path]
        assert about["mean"] == pytest.approx(np.mean(earned), rel=1e-9)
        assert about["lower"] <= about["mean"] <= about["upper"]
        assert ("snips" in about) == (about["effective_lists"] >= 100)
    assert report["values"][models[1]]["lower"] > report["as_shown"] > report["values"][models[0]]["mean"]
    assert (report["lists"], report["largest_gain"]) == (1200, 2.0)
    # Random orders say what happens if two documents are exchanged; propensities do not.
    assert (report["preference"] is None) == (origin != "shuffled")
    if origin == "shuffled":
        assert report["preference"]["lower"] > 0.5
    code, out, _ = run(capsys, *given, command="compare")
    assert code == 0
    assert (f"users prefer {models[1]}" in out) == (origin == "shuffled")
    assert "Nothing is assumed about users." in out


@pytest.mark.slow
def test_single_slots_tell_no_preference(folder, models, capsys):
    log = log_of(False)
    log.loc[log.position > 1, ["position", "click"]] = np.nan
    log.to_csv(folder / "single.csv", index=False)
    given = [*models, str(folder / "single.csv"), "--clicks", "shuffled", "--event", "click=1"]
    code, out, _ = run(capsys, *given, "--json", command="compare")
    assert (code, json.loads(out)["preference"]) == (0, None)
    code, out, _ = run(capsys, *given, command="compare")
    assert code == 0
    assert "prefer" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--clicks", "moved"], "lists that were not random say nothing about those that another model would have shown"),
        (["--clicks", "above"], "no column 'propensity'"),
        (["--clicks", "shuffled", "--measure", "map"], "--measure does not go with --clicks"),
        (["--event", "click=1"], "--event needs --clicks"),
    ],
)
def test_logs_that_compare_nothing_are_refused(arguments, message, folder, models, capsys):
    code, out, err = run(capsys, *models, str(folder / "shuffled.csv"), *arguments, command="compare")
    assert code == 2
    assert message in err
    assert out == ""


def wrong(folder, name, change):
    """A log that contradicts its declared origin."""
    log = log_of(False, 300)
    change(log).to_csv(folder / f"{name}.csv", index=False)
    return str(folder / f"{name}.csv")


def only_shown(log):
    return log[log.position.notna()].assign(propensity=log.above)


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("origin", "change", "message"),
    [
        ("above", only_shown, "line 2: document '.*' is the only candidate that was left, but its probability is 0.333333"),
        (
            "place",
            lambda log: log[log.position.notna()].assign(propensity=1 / 34),
            r"line \d+, .*line \d+, .*line \d+: the lists were not .* inverse probabilities are 8.5 times what they can be",
        ),
        ("above", lambda log: log[log.position == 1].assign(propensity=log.place), "'.*' is the only candidate that was left"),
        ("above", lambda log: log.assign(propensity=1.0), "has probability 1, although 5 other candidates were left"),
        ("shuffled", lambda log: log_of(True, 300), "the list shown before comes again"),
        ("shuffled", lambda log: log[log.position == 1], "each list has one document and no other candidate"),
        ("shuffled", lambda log: log.assign(position=log.position - 1), "has exactly one row at position 0"),
    ],
)
def test_a_log_that_contradicts_its_declared_origin_is_refused(origin, change, message, tmp_path, models, capsys):
    log = wrong(tmp_path, "log", change)
    options = ("--clicks", origin, "--event", "click=1")
    train = [log, "--exclude", "topic,above,place", "--save", str(tmp_path / "m")]
    for command, given in (("train", train), ("compare", [*models, log])):
        code, out, err = run(capsys, *given, *options, command=command)
        assert code == 2
        assert re.search(message, err), err
        assert out == ""
    assert not (tmp_path / "m").exists()


@pytest.mark.slow
def test_an_outcome_is_no_feature_and_a_leak_is_named(folder, tmp_path, capsys):
    log = pd.read_csv(folder / "shuffled.csv", index_col=0)
    clicked = log.click.eq("click")
    some = np.random.default_rng(0).random(len(log)) < 0.4
    log.assign(purchase=(clicked & some) * 1, later=(clicked & some) * 2).to_csv(tmp_path / "log.csv", index=False)
    code, _, err = run(
        capsys, str(tmp_path / "log.csv"), "--clicks", "shuffled", "--exclude", "topic", "--event", "click=1", "--json"
    )
    assert code == 0
    assert "online-rank: 1 features: x\n" in err
    assert "purchase (an outcome by its name" in err
    assert re.search(r"foretells the clicks, .*: later \(100.0% of pairs with different values, 39% of all\); left out", err)


@pytest.mark.slow
def test_what_graded_training_takes(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = pd.read_csv(folder / "shuffled.csv", index_col=0)
    log.to_csv("log.csv", index=False)
    held = log_of(False, 1600)[6 * 1200 :].drop(columns=["above", "place"])
    held.to_csv("held.csv", index=False)
    options = ["--clicks", "shuffled", "--exclude", "topic", "--event", "click=1"]
    code, out, _ = run(capsys, "log.csv", *options, "--dry-run", "--json")
    assert code == 0
    columns = {column["name"]: column for column in json.loads(out)["columns"]}
    assert (columns["x"]["role"], columns["position"]["role"]) == ("feature", "position")
    assert columns["position"]["missing"] == pytest.approx(1 / 3)
    code, out, _ = run(capsys, "log.csv", *options, "--test", "held.csv", "--strict", "--save", "m", "--json")
    assert code == 0
    report = json.loads(out)
    assert report["verdict"].startswith("the model beats the logged ranking: ")
    assert report["test"]["lists"] == 400
    assert report["test"]["value_first"]["lower"] < 0.77 < report["test"]["value_first"]["upper"]
    with pytest.raises(ValueError, match="other"):
        load("m").learn_one({"a": {"other": 1.0}, "b": {"other": 2.0}}, [0, 1])
    log.assign(x=log.x.where(log.index % 7 > 0))[:1800].to_csv("gaps.csv", index=False)
    assert run(capsys, "gaps.csv", *options, "--quiet")[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("origin", ["moved", "shuffled", "above"])
def test_signs_are_kept(origin, folder, tmp_path, capsys):
    options = ("--clicks", origin, *OPTIONS.get(origin, ("--exclude", "topic")), "--event", "click=1", "--quiet")
    log, model = str(tmp_path / "log.csv"), str(tmp_path / "m")
    pd.read_csv(folder / f"{origin}.csv", index_col=0)[:1800].to_csv(log, index=False)
    for sign in ("+", "-"):
        assert run(capsys, log, *options, "--sign", f"x={sign}", "--save", model)[0] == 0
        scores = load(model).predict_one({"bad": {"x": -1.0}, "good": {"x": 1.0}})
        assert scores["good"] > scores["bad"] if sign == "+" else scores["good"] <= scores["bad"]
    code, _, err = run(capsys, log, *options, "--sign", "y=+")
    assert code == 2
    assert "--sign y: " in err


@pytest.mark.slow
def test_what_a_device_adds_to_clicks_is_learned_and_is_no_feature(folder, tmp_path, capsys):
    log = pd.read_csv(folder / "moved.csv", index_col=0)[:1800]
    log["device"] = np.where(log["query"].str[-1].isin(list("13579")), "phone", "desk")
    log = log[(log.device == "desk") | (log.position != 1) | log.click.isna()]
    log.to_csv(tmp_path / "log.csv", index=False)
    options = ("--clicks", "moved", "--event", "click=1", "--exclude", "topic", "--shown-on", "device")
    code, _, err = run(capsys, str(tmp_path / "log.csv"), *options, "--examination", "none", "--save", tmp_path / "m")
    assert code == 0, err
    model = load(tmp_path / "m")
    assert "device" not in model.feature_names
    ranker = ranker_of(model)
    if hasattr(ranker, "trust"):
        assert ranker.learners[1].terms["phone"] < ranker.learners[1].terms["desk"]
    code, _, err = run(capsys, str(tmp_path / "log.csv"), *options, "--ranker", "additive")
    assert (code, "--shown-on is for the default of --clicks moved" in err) == (2, True)


@pytest.mark.slow
def test_lists_that_moved_tell_no_winner(folder, capsys):
    log = str(folder / "moved.csv")
    options = ("--clicks", "moved", "--topic", "topic", "--event", "click=1")
    code, out, _ = run(capsys, log, *options, "--test", log)
    assert code == 0
    out = " ".join(out.split())
    assert "this log cannot tell whether the model beats the logged ranking: its lists were not drawn" in out
    assert "an estimate, if the examination above is right" in out
    assert "next: compare on live traffic" in out
    assert "156 of 156 pairs" in out


@pytest.mark.parametrize(
    ("origin", "named", "says"),
    [
        ("shuffled", (), "Weights of the features"),
        ("shuffled", ("--ranker", "additive"), "<h2>Curves</h2>"),
        pytest.param("moved", (), "Features by which the trees split", marks=pytest.mark.slow),
    ],
)
def test_a_report_of_clicks(origin, named, says, folder, tmp_path, capsys):
    pd.read_csv(folder / f"{origin}.csv", index_col=0)[:1800].to_csv(tmp_path / "log.csv", index=False)
    options = ("--clicks", origin, "--exclude", "topic", "--event", "click=1", *named)
    code, *_ = run(capsys, str(tmp_path / "log.csv"), *options, "--report", str(tmp_path / "page"))
    assert code == 0
    page = (tmp_path / "page" / "index.html").read_text()
    assert "the logged ranking" in page
    assert says in page


@pytest.mark.slow
def test_texts_are_categories(tmp_path, capsys):
    log = log_of(True, 400)
    quality = {(t, d): np.random.default_rng([t, 7]).normal(size=6)[d] for t in range(30) for d in range(6)}
    places = [tuple(map(int, name.split("/"))) for name in log["document"]]
    log["brand"] = ["acme" if quality[place] > 0 else "other" for place in places]
    log.drop(columns=["above", "place", "x"]).to_csv(tmp_path / "log.csv", index=False)
    given = ("--clicks", "moved", "--topic", "topic", "--event", "click=1", "--save", tmp_path / "model.npz")
    code, _, err = run(capsys, tmp_path / "log.csv", *given)
    assert code == 0, err
    assert "features: brand" in err
    assert load(tmp_path / "model.npz").rank_one({"a": {"brand": "other"}, "b": {"brand": "acme"}}) == ["b", "a"]


@pytest.mark.slow
def test_what_the_next_step_names_is_done_with_texts(tmp_path, capsys):
    """Neighbours in random order, with the probability of each document at its place."""
    rng, rows = np.random.default_rng(2), []
    for t in range(300):
        first, order = int(rng.integers(2)), [*range(4)]
        for a in range(first, 3, 2):
            if rng.random() < 0.5:
                order[a], order[a + 1] = order[a + 1], order[a]
        for place, d in enumerate(order):
            chance = 0.25 if place != d else 0.75 if d in (0, 3) else 0.5
            good = (t + d) % 3 == 0
            click = "click" if rng.random() < (0.8 if good else 0.2) / (place + 1) else None
            rows.append((f"r{t}", f"{t}/{d}", place + 1, click, chance, "acme" if good else "other", 3.0 - d))
    log = pd.DataFrame(rows, columns=["query", "document", "position", "click", "propensity", "brand", "score"])
    log.to_csv(tmp_path / "log.csv", index=False)
    of_log = (tmp_path / "log.csv", "--clicks", "place", "--event", "click=1")
    for name in "ab":
        code, _, err = run(capsys, *of_log, "--ranker", "additive", "--save", tmp_path / name)
        assert code == 0, err
    assert load(tmp_path / "a").rank_one({"x": {"brand": "other"}, "y": {"brand": "acme"}}) == ["y", "x"]
    code, out, err = run(capsys, tmp_path / "a", tmp_path / "b", *of_log, command="compare")
    assert code == 0, err
    assert "300 lists" in out
    code, _, err = run(capsys, tmp_path / "log.csv", "--clicks", "shuffled", "--exclude", "propensity", "--event", "click=1")
    assert code == 2
    assert "the lists were not drawn as claimed" in err


@pytest.mark.slow
@pytest.mark.parametrize(("origin", "says"), [("moved", [False, True]), ("above", [False, True]), ("moved", ["no", "yes"])])
def test_categories_next_to_numbers(origin, says, folder, tmp_path, capsys):
    """Lists with probabilities raised AttributeError; what is true only after a click passed for a category."""
    log = pd.read_csv(folder / f"{origin}.csv", index_col=0)[:1800]
    some = log.click.eq("click") & (np.random.default_rng(0).random(len(log)) < 0.7)
    log.assign(city=np.random.default_rng(1).choice(["Ulm", "Graz"], len(log)), applied=np.array(says)[some * 1]).to_csv(
        tmp_path / "log.csv", index=False
    )
    options = ("--clicks", origin, *OPTIONS.get(origin, ("--exclude", "topic")), "--event", "click=1", "--json")
    code, _, err = run(capsys, tmp_path / "log.csv", *options)
    assert code == 0, err
    assert "2 features: x, city\n" in err
    assert "foretells the clicks, as what is known only after them: applied (100.0%" in err


@pytest.mark.slow
def test_flat_lines_of_json_teach_the_model_that_csv_teaches(tmp_path, capsys):
    """Texts came before numbers, which changed the model; missing values were learned as 0."""
    log = log_of(True, 60).drop(columns=["above", "place"])
    log.insert(5, "kind", np.where(log.index % 2, "a", "b"))
    log = log.assign(click=log.click.eq("click") * 1, x=log.x.round(6).where(log.index % 7 > 0))
    log.to_csv(tmp_path / "log.csv", index=False)
    log.to_json(tmp_path / "log.jsonl", orient="records", lines=True, double_precision=15)
    for form in ("csv", "jsonl"):
        given = ("--clicks", "moved", "--topic", "topic", "--quiet", "--save", tmp_path / f"{form}.model")
        assert run(capsys, tmp_path / f"log.{form}", *given)[0] == 0
    of_csv, of_json = ((tmp_path / f"{form}.model").read_bytes() for form in ("csv", "jsonl"))
    assert of_csv == of_json


def test_lists_without_a_position_are_counted(tmp_path, capsys):
    log = log_of(True, 60).drop(columns=["above", "place"])
    log.loc[log["query"].isin(["r3", "r5"]), ["position", "click"]] = None
    log.to_csv(tmp_path / "log.csv", index=False)
    code, out, err = run(capsys, tmp_path / "log.csv", "--clicks", "moved", "--topic", "topic", "--event", "click=1", "--json")
    assert code == 0
    assert "left out are lists of which no row has a position: 2\n" in err
    assert (json.loads(out)["lists"], json.loads(out)["empty"]) == (58, 2)


def test_a_log_without_a_click_is_refused(tmp_path, capsys):
    log_of(True, 40).assign(click=None).drop(columns=["above", "place"]).to_csv(tmp_path / "log.csv", index=False)
    code, _, err = run(capsys, tmp_path / "log.csv", "--clicks", "moved", "--topic", "topic", "--save", tmp_path / "model.npz")
    assert code == 2
    assert "no list has a click" in err
    assert not (tmp_path / "model.npz").exists()
