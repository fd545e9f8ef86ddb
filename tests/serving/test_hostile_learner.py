"""A reader whose learner is hostile, or a broken proxy: it takes no more memory than the limit, and looks again and again."""

import asyncio
import gzip
import http.server
import logging
import threading

import pytest

from online_rank import PerceptronRanker
from online_rank.serving import readers
from online_rank.serving.models import KeyRefused
from online_rank.serving.readers import ReaderModels
from online_rank.storage.files import to_bytes


def model(weight):
    found = PerceptronRanker()
    found.learn_one({"a": {"x": weight}, "b": {"x": 0.0}}, {"a": 0, "b": 1})
    return to_bytes(found)


class Learner(http.server.ThreadingHTTPServer):
    """Answers each look at the model with the next of its answers: status, headers, content; the last one again and again."""

    def __init__(self, *answers):
        self.answers, self.asked = [*answers], []
        super().__init__(("127.0.0.1", 0), _Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def do_GET(self):
        self.server.asked.append(dict(self.headers))
        answers = self.server.answers
        status, headers, content = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response_only(status)
        for name, value in headers.items():
            self.wfile.write(b"") if value is None else self._headers_buffer.append(f"{name}: {value}\r\n".encode("latin-1"))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


def looked(learner, n, tmp_path=None):
    """The models of a reader after it has looked n times at a learner, and why each look that raised did."""

    async def main():
        models, failed = ReaderModels(learner.url, name="r", cache=tmp_path), []
        for _ in range(n):
            try:
                await models._read("")
            except KeyRefused as refused:
                failed.append(str(refused))
        here = models.open_models.get("")
        await models.http.aclose()
        return None if here is None else here.durable.service.model, failed

    try:
        return asyncio.run(main())
    finally:
        learner.shutdown()
        learner.server_close()


@pytest.mark.parametrize("says", ["gzip", "deflate"])
def test_an_answer_that_expands_is_refused_as_it_came(says, caplog):
    """3 MB expanded to 3 GB, and took 6.4 GB."""
    bomb = gzip.compress(bytes(1 << 24))
    learner = Learner((200, {"ETag": '"1"', "Content-Encoding": says}, bomb), (200, {"ETag": '"2"'}, model(1.0)))
    with caplog.at_level(logging.WARNING, "online_rank.serving"):
        found, failed = looked(learner, 2)
    assert "compressed, which was not asked for" in caplog.text
    assert len(failed) == 1
    assert found is not None
    assert learner.asked[0]["Accept-Encoding"] == "identity"


def test_an_answer_larger_than_the_limit_is_refused_while_it_comes(monkeypatch, caplog):
    monkeypatch.setattr(readers, "MOST_MODEL", 1 << 16)
    learner = Learner((200, {"ETag": '"1"'}, bytes(1 << 20)))
    with caplog.at_level(logging.WARNING, "online_rank.serving"):
        found, failed = looked(learner, 1)
    assert found is None
    assert "larger than 65536 bytes" in caplog.text
    assert len(failed) == 1


@pytest.mark.parametrize("etag", ['"\u00ff\u0080"', '"a"b"', "no quotes", '"' + "x" * 300 + '"', ""])
def test_an_etag_with_illegal_bytes_ends_no_looks(etag, caplog):
    """The header of the next look could not be made of it, and the reader looked no more."""
    learner = Learner((200, {"ETag": etag} if etag else {}, model(1.0)), (200, {"ETag": '"2"'}, model(-5.0)))
    with caplog.at_level(logging.WARNING, "online_rank.serving"):
        found, failed = looked(learner, 2)
    assert failed == []
    assert to_bytes(found) == model(-5.0)
    assert "If-None-Match" not in learner.asked[1]
    assert "ETag" in caplog.text


def test_a_304_to_the_first_look_is_a_failed_look(caplog):
    """The error stopped the reader from starting."""
    learner = Learner((304, {}, b""), (200, {"ETag": '"1"'}, model(1.0)))
    with caplog.at_level(logging.WARNING, "online_rank.serving"):
        found, failed = looked(learner, 2)
    assert found is not None
    assert len(failed) == 1
    assert "unchanged which was not asked for" in caplog.text


def test_every_failed_look_is_logged(caplog):
    learner = Learner((500, {}, b"no"))
    with caplog.at_level(logging.INFO, "online_rank.serving"):
        looked(learner, 3)
    assert [record.levelname for record in caplog.records if "answered with 500" in record.getMessage()] == [
        "WARNING",
        "INFO",
        "INFO",
    ]


@pytest.mark.parametrize("how", ["folder", "file", "link"])
def test_a_cache_that_others_can_write_to_is_not_read(tmp_path, how, caplog):
    """A reader ranked by any model in a folder of mode 0777 while its learner was away."""
    cache = tmp_path / "cache"
    found, _ = looked(Learner((200, {"ETag": '"1"'}, model(1.0))), 1, cache)
    assert found is not None
    found, failed = looked(Learner((503, {}, b"away")), 1, cache)
    assert found is not None
    if how == "folder":
        cache.chmod(0o777)
    elif how == "file":
        (cache / "model.npz").chmod(0o666)
    else:
        (cache / "model.npz").rename(tmp_path / "other")
        (cache / "model.npz").symlink_to(tmp_path / "other")
    with caplog.at_level(logging.ERROR, "online_rank.serving"):
        found, failed = looked(Learner((503, {}, b"away")), 1, cache)
    assert found is None
    assert len(failed) == 1
    assert "the model in the cache is not used" in caplog.text
