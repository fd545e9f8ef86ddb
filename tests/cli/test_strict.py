"""A model of `train --strict` rejects other features wherever it goes; with others a warning names them."""

import pytest

from online_rank import load
from online_rank.cli.options import Service
from online_rank.cli.service import maker

TABLE = ("--query", "query", "--grade", "grade")


@pytest.fixture
def run(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [(q, price, clicks, int(clicks > price)) for q in range(8) for price, clicks in ((1, 3), (5, 2), (2, 2), (3, 9))]
    (tmp_path / "log.csv").write_text(
        "query,price,clicks,grade\n" + "".join(f"{q},{price},{clicks},{grade}\n" for q, price, clicks, grade in rows)
    )
    # A misspelt column, and one that is new.
    (tmp_path / "other.csv").write_text((tmp_path / "log.csv").read_text().replace("price", "prise"))
    (tmp_path / "more.csv").write_text(
        "query,price,clicks,age,grade\n" + "".join(f"{q},{price},{clicks},7,{grade}\n" for q, price, clicks, grade in rows)
    )
    lines = "".join(f"{grade} qid:{q} 1:{price} 2:{clicks}\n" for q, price, clicks, grade in rows)
    (tmp_path / "two.txt").write_text(lines)
    (tmp_path / "three.txt").write_text(lines.replace("\n", " 3:1\n"))
    (tmp_path / "one.txt").write_text("".join(f"{grade} qid:{q} 1:{price}\n" for q, price, _, grade in rows))

    assert run("train", "log.csv", *TABLE, "-q", "--save", "m")[0] == 0
    assert run("train", "two.txt", "-q", "--save", "letor")[0] == 0
    return run


#: What each command takes in addition to the model and the file.
COMMANDS = {"rank": (), "evaluate": (), "explain": ("--id", "3")}


def table(command):
    """The options that name the columns for a command."""
    return TABLE if command == "evaluate" else TABLE[:2]


@pytest.mark.first(2)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("model", "file", "told"),
    [
        ("m", "other.csv", "prise"),
        ("m", "more.csv", "columns that the model has not learned from are left out: age"),
        ("letor", "three.txt", "columns that the model has not learned from are left out: 3"),
        ("letor", "one.txt", "1 of the 2 features that the model has learned from are not in the file"),
    ],
)
def test_features_that_differ_raise_a_warning(run, command, model, file, told):
    options = (*COMMANDS[command], *(table(command) if model == "m" else ()))
    code, _, err = run(command, model, file, *options)
    assert code == 0
    assert told in err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_strict_model_refuses_files_that_lack_a_feature(run, command):
    assert run("train", "log.csv", *TABLE, "-q", "--strict", "--save", "strict")[0] == 0
    options = (*table(command), *COMMANDS[command])
    assert run(command, "strict", "log.csv", *options)[0] == 0
    code, _, err = run(command, "strict", "more.csv", *options)
    assert code == 0
    assert "columns that the model has not learned from are left out: age" in err
    code, out, err = run(command, "strict", "other.csv", *options)
    assert (code, out) == (2, "")
    assert "1 of the 2 features that the model has learned from are not in the file, and the model wants all" in err
    assert err.endswith("(train --strict): price\n")


def test_a_strict_model_refuses_other_features_wherever_it_goes(run):
    code, _, err = run("train", "log.csv", *TABLE, "-q", "--strict", "--test", "other.csv", "--save", "n")
    assert code == 2
    assert "--strict" in err
    assert run("train", "log.csv", *TABLE, "-q", "--strict", "--save", "n")[0] == 0
    model = load("n")
    with pytest.raises(ValueError, match="has a feature 'prise', which is not declared; the nearest that is: 'price'"):
        model.rank_one([{"prise": 1.0, "clicks": 2.0}])
    code, _, err = run("train", "two.txt", "-q", "--strict")
    assert code == 2
    assert "--strict is for tables" in err


def test_a_strict_model_takes_texts_and_missing_values_as_it_does_otherwise(run):
    """The default learns both; a feature that a document lacks is missing, not 0."""
    rows = [(q, price, color, int(color == "red")) for q in range(9) for price, color in ((1, "red"), ("", "blue"), (3, "red"))]
    with open("shop.csv", "w") as file:
        file.write("query,price,color,grade\n")
        file.writelines(f"{q},{price},{color},{grade}\n" for q, price, color, grade in rows)
    query = {"a": {"color": "blue"}, "b": {"price": 3.0, "color": "red"}, "c": {"price": None, "color": "red"}}
    scores = []
    for strict in ((), ("--strict",)):
        assert run("train", "shop.csv", *TABLE, "-q", "--save", "n", *strict)[0] == 0
        scores.append(load("n").predict_one(query))
    assert scores[0] == scores[1]
    assert scores[0]["b"] > scores[0]["a"]
    with pytest.raises(ValueError, match="has a feature 'colour', which is not declared; the nearest that is: 'color'"):
        load("n").predict_one({"a": {"colour": "red"}})
    service = maker(Service("n"))()
    assert service.handle(b'{"id": 1, "docs": {"a": {"color": "red"}, "b": {"price": 1}}}').answer["ranking"]


def test_the_service_of_a_strict_model_refuses_features_that_it_does_not_know(run):
    assert run("train", "log.csv", *TABLE, "-q", "--strict", "--save", "strict")[0] == 0
    service = maker(Service("strict"))()
    answer = service.handle(b'{"id": 1, "docs": {"a": {"prise": 3}, "b": {"price": 1}}}').answer
    assert "a feature 'prise', which is not declared" in answer["error"]
    assert service.handle(b'{"id": 1, "docs": {"a": {"price": 3}, "b": {"price": 1}}}').answer["ranking"]
