"""`--tastes`: what users like, from a table to a service."""

import json

import numpy as np
import pytest

from online_rank import load
from online_rank.cli.options import Service
from online_rank.cli.service import maker

LIKES = {"ada": [1.0, 0.0], "bob": [0.0, 1.0]}
LOG = ("log.csv", "--query", "query", "--grade", "grade")


@pytest.fixture
def run(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng, lines = np.random.default_rng(0), ["query,user,price,embedding,grade"]
    for t in range(120):
        user = ["ada", "bob"][t % 2]
        for d in rng.normal(size=(4, 2)):
            lines += [f'q{t},{user},{rng.random():.3f},"{d.tolist()}",{int(d @ LIKES[user] > 0.8)}']
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    return run


def favourites(service):
    """The document that ranks first, by user."""
    docs, made = {"x": {"price": 0.5, "embedding": [1, 0]}, "y": {"price": 0.5, "embedding": [0, 1]}}, maker(service)()
    asked = {user: json.dumps({"id": user, "docs": docs, "context": {"user": user}}) for user in LIKES}
    return made, {user: made.handle(text.encode()).answer["ranking"][0] for user, text in asked.items()}


@pytest.mark.parametrize("options", [(), ("--exclude", "user")])
def test_a_table_is_learned_user_by_user_and_the_model_ranks_files_and_requests(run, options):
    code, _, err = run("train", *LOG, *options, "--tastes", "user", "--save", "m")
    assert code == 0, err
    model = load("m")
    assert model["Tastes"].n_keys == 2
    assert "user" not in model["AdditiveRanker"].feature_names
    assert favourites(Service(model="m"))[1] == {"ada": "x", "bob": "y"}
    code, out, err = run("evaluate", "m", *LOG, "--json")
    assert code == 0, err
    assert json.loads(out)["queries"] == 120


def test_a_new_service_learns_tastes():
    made, _ = favourites(Service(tastes="user=picture", history=["brand"]))
    assert [str(step) for step in made.model.steps.values()][:2] == [
        "History('brand', half_life='7d')",
        "Tastes('user', vector='picture')",
    ]
    assert maker(Service(tastes="user"))().model["Tastes"].by == "user"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("train", *LOG, "--tastes", "usr"), "no column 'usr'"),
        (("train", *LOG, "--tastes", "=embedding"), "--tastes =embedding: give a name, as in user"),
        (("train", *LOG, "--tastes", "user", "--ranker", "perceptron"), "not for perceptron, which takes no vectors"),
        (("train", *LOG, "--tastes", "user", "--for", "onnx"), "engines keep no tastes of users: leave out --tastes"),
        (("train", "log.csv", "--clicks", "moved", "--tastes", "user"), "--tastes does not go with --clicks"),
        (("stream", "m", "--tastes", "user"), "--tastes is for a new model"),
        (("stream", "--tastes", "user", "--ranker", "swap"), "not for swap, which takes no vectors"),
    ],
)
def test_impossible_settings_raise_errors_with_a_remedy(run, arguments, told):
    if arguments[1] == "m":
        run("train", *LOG, "--save", "m", "-q")
    code, _, err = run(*arguments)
    assert code != 0
    assert told in " ".join(err.split())
