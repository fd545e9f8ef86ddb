"""What identifies a request, in errors and in the log."""

import asyncio
import json
import logging
import subprocess
import sys

import pytest

from online_rank import PerceptronRanker
from online_rank.serving import Models, RankingApp, RankingService
from online_rank.serving.trace import CURRENT, Trace, add_trace
from tests.serving.asking import asked

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


def answers(*requests, token="secret12", path="/rank", **options):
    """The answers to requests of an application, each with its headers."""
    given = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}

    async def scenario(client, app):
        return [await client.post(path, content=body, headers=given | headers) for body, headers in requests]

    return asked(scenario, RankingApp(Models(lambda: RankingService(PerceptronRanker())), token=token, **options))


@pytest.mark.parametrize(
    ("given", "is_taken"),
    [
        ("r-17", True),
        ("urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66", True),
        ("x" * 128, True),
        ("x" * 129, False),
        ("two words", False),
        ("<script>", False),
        ("", False),
    ],
)
def test_errors_have_the_id_of_the_request_or_a_new_one(given, is_taken):
    wrong, refused, ranked = answers(
        (b"{", {"X-Request-Id": given}),
        (b"{}", {"X-Request-Id": given, "Authorization": "Bearer other"}),
        (b'{"id": 1, "docs": {}}', {"X-Request-Id": given}),
    )
    assert (wrong.status_code, refused.status_code, ranked.status_code) == (400, 401, 200)
    for answer in (wrong, refused):
        found = answer.json()["request_id"]
        assert found == answer.headers["x-request-id"]
        assert found == given if is_taken else len(found) == 32
    assert "request_id" not in ranked.json()


def test_what_is_not_under_any_path_is_an_error_like_others():
    (answer,) = answers((b"{}", {"X-Request-Id": "r-1"}), path="/nowhere")
    assert answer.status_code == 404
    assert answer.json()["request_id"] == "r-1"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (PARENT, TRACE),
        (f"01-{TRACE}-b7ad6b7169203331-01-more", TRACE),
        (f"ff-{TRACE}-b7ad6b7169203331-01", None),
        (f"00-{'0' * 32}-b7ad6b7169203331-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (f"00-{TRACE.upper()}-b7ad6b7169203331-01", None),
        ("00-1-2-3", None),
    ],
)
def test_the_trace_equals_w3c_trace_context(given, expected):
    assert Trace({b"traceparent": given.encode()}).trace_id == expected


def test_a_failure_of_the_server_is_found_in_its_log(caplog, monkeypatch):
    def fails(self, *_, **__):
        raise RuntimeError("this should not happen")

    monkeypatch.setattr(RankingService, "handle", fails)
    caplog.handler.addFilter(add_trace)
    try:
        (answer,) = answers((b'{"id": 1, "docs": {}}', {"X-Request-Id": "r-5", "traceparent": PARENT}))
    finally:
        caplog.handler.removeFilter(add_trace)
    assert answer.status_code == 500
    assert answer.json()["request_id"] == "r-5"
    (record,) = (record for record in caplog.records if record.levelno == logging.ERROR)
    assert "this should not happen" in caplog.text
    assert (record.request_id, record.trace_id) == ("r-5", TRACE)


def test_no_request_is_answered_after_its_end():
    async def main():
        trace = Trace({b"x-request-id": b"r-1"})
        CURRENT.set(trace)
        assert Trace.current().request_id == "r-1"
        task = asyncio.create_task(asyncio.sleep(0.01, result=None))
        after = asyncio.create_task(later())
        trace.is_answered = True
        await task
        assert Trace.current() is None
        assert await after is None

    async def later():
        await asyncio.sleep(0.01)
        return Trace.current()

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("level", ["debug", "info"])
def test_requests_are_logged_at_the_level_debug_without_what_they_contain(level):
    code = f"""
import sys
from online_rank.cli.logs import log_to_stderr
from online_rank.serving.trace import add_trace
log_to_stderr("json", {level!r}, of_request=add_trace)
from tests.serving.test_trace import answers, PARENT
answers(
    (b'{{"id": "secret id", "docs": {{"secret document": {{"x": 1}}}}}}', {{"X-Request-Id": "r-1", "traceparent": PARENT}}),
    (b'{{"id": "secret id"', {{}}),
    path="/rank?token=secret-query",
)
answers((b"", {{}}), path="/a%0Aline")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert "secret" not in done.stderr
    if level == "info":
        assert lines == []
        return
    ranked, wrong, other = (line for line in lines if line["logger"] == "online_rank.serving")
    assert ranked["message"].startswith("POST /rank: 200 after ")
    assert (ranked["level"], ranked["request_id"], ranked["trace_id"]) == ("debug", "r-1", TRACE)
    assert wrong["message"].startswith("POST /rank: 400 after ")
    assert len(wrong["request_id"]) == 32
    assert "trace_id" not in wrong
    assert other["message"].startswith("POST /a%0Aline: 404 after ")
