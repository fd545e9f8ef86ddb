"""Tokens of three roles, several for each."""

import pytest

from online_rank import PerceptronRanker
from online_rank.cli.serve import tokens
from online_rank.serving import Models, RankingApp, RankingService
from online_rank.serving.tokens import Tokens, kinds_of, tokens_in
from tests.serving.asking import asked

DOCS = {"a": {"x": 3.0}, "b": {"x": 1.0}}
RANK = {"id": 1, "docs": DOCS}
LEARN = {"id": 1, "grades": {"a": 0, "b": 1}}
TEACH = {"id": 2, "docs": DOCS, "grades": {"a": 0, "b": 1}}
EXPLAIN = {"id": 3, "docs": DOCS, "explain": ["a", "b"]}
STATS = {"cmd": "stats"}
GIVEN = {"rank": ["rank-old", "rank-new"], "learn": ["learn-1!"], "admin": ["admin-1!"]}


def answers(token, tmp_path, by_key=False):
    """The status of each request with a token."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    async def scenario(client, app):
        admin = {"Authorization": "Bearer admin-1!"}
        await client.post("/rank", json=RANK, headers=admin)
        found = {}
        for path in ("/rank", "/learn"):
            for name, body in (("rank", {**RANK, "id": 9}), ("learn", LEARN), ("teach", TEACH), ("cmd", STATS)):
                answer = await client.post(path, json=body, headers=headers)
                found[f"{path} {name}"] = answer.status_code
        found["/explain"] = (await client.post("/explain", json=EXPLAIN, headers=headers)).status_code
        for path in ("/model", "/stats", "/metrics"):
            found[path] = (await client.get(path, headers=headers)).status_code
        for path in ("/forget", "/model/rollback"):
            found[path] = (await client.post(path, json={"ids": [7]}, headers=headers)).status_code
        found["open"] = (await client.get("/healthz", headers=headers)).status_code
        stats = (await client.get("/stats", headers=admin)).json()["stats"]
        return found, stats["learned"]

    models = Models(lambda: RankingService(PerceptronRanker()), directory=tmp_path, by_key=by_key)
    app = RankingApp(models, token=GIVEN, key="shop" if by_key else None)
    return asked(scenario, app, params={"shop": "north"})


@pytest.mark.first(5)
@pytest.mark.parametrize("by_key", [False, True])
@pytest.mark.parametrize("token", [*(token for tokens in GIVEN.values() for token in tokens), "unknown!", "", None])
def test_a_token_may_do_what_its_role_may(token, by_key, tmp_path):
    found, n_learned = answers(token, tmp_path, by_key)
    role = next((role for role, given in GIVEN.items() if token in given), None)
    may = {"rank": {"rank", "/explain"}, "learn": {"learn", "teach"}, "admin": {*found}}.get(role, set())
    for name, status in found.items():
        refused = 401 if role is None else 403
        is_allowed = name == "open" or role == "admin" or name in may or name.split()[-1] in may
        if name == "/model/rollback" and is_allowed:
            assert status == 400, name
        else:
            assert status == (200 if is_allowed else refused), name
    # Feedback that is sent to /rank with a token for ranking teaches nothing.
    assert n_learned == (2 if role in ("learn", "admin") else 0)


def test_a_new_key_is_not_made_by_a_request_of_another_role(tmp_path):
    async def scenario(client, app):
        headers = {"Authorization": "Bearer rank-old"}
        assert (await client.post("/rank?shop=new", json=TEACH, headers=headers)).status_code == 403
        assert app.models.n_keys == 0

    models = Models(lambda: RankingService(PerceptronRanker()), directory=tmp_path, by_key=True)
    asked(scenario, RankingApp(models, token=Tokens(GIVEN), key="shop"))


def test_tokens_come_from_the_environment_and_a_file(tmp_path, monkeypatch):
    for name in ("", "_RANK", "_LEARN", "_ADMIN"):
        monkeypatch.delenv(f"ONLINE_RANK_TOKEN{name}", raising=False)
    assert tokens(None) is None
    file = tmp_path / "tokens"
    file.write_text("# of the search\nrank from-file  # until May\n\nlearn with#hash\n")
    monkeypatch.setenv("ONLINE_RANK_TOKEN", "all-of-it")
    monkeypatch.setenv("ONLINE_RANK_TOKEN_RANK", "rank-one rank-two")
    known = tokens(str(file))
    roles = {
        token: sorted(known.roles_of(token.encode())) for token in ("from-file", "rank-two", "with#hash", "all-of-it", "x")
    }
    assert roles == {"from-file": ["rank"], "rank-two": ["rank"], "with#hash": ["learn"], "all-of-it": ["admin"], "x": []}
    (tmp_path / "empty").write_text("")
    monkeypatch.delenv("ONLINE_RANK_TOKEN")
    monkeypatch.delenv("ONLINE_RANK_TOKEN_RANK")
    with pytest.raises(ValueError, match="has no token"):
        tokens(str(tmp_path / "empty"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"owner": ["12345678"]}, "'owner' is no role"),
        ({"rank": ["1234567"]}, "shorter than 8"),
        ({"rank": ["12345678 "]}, "ASCII"),
    ],
)
def test_tokens_that_cannot_be_sent_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        Tokens(given)
    with pytest.raises(ValueError, match="line 2 of the tokens is not a role and a token"):
        tokens_in("rank 12345678\nlearn\n")


def test_the_error_for_a_token_names_the_role_that_a_request_needs():
    """The error said: "this is a request of the kind rank; here it must be of the kind clicks or ..."."""
    service = RankingService(PerceptronRanker())
    rank = b'{"id": 1, "docs": {"a": {"x": 1}, "b": {"x": 2}}}'
    reply = service.handle(rank, kinds=kinds_of({"learn"}))
    assert reply.answer["error"] == "this token has not the role rank or admin, which a request of the kind rank needs"
    reply = service.handle(b'{"id": 1, "grades": {"a": 1}}', kinds=kinds_of({"rank"}))
    assert reply.answer["error"] == "this token has not the role learn or admin, which a request of the kind grades needs"
