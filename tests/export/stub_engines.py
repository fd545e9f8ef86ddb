"""Small servers with the requests of search engines, whose scores come from the readers in `tests.reference.engines`.

They stand for engines that cannot be had here: they keep the documents that they are sent, refuse paths that they do not know,
and score with a model that runs "there".
"""

import contextlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np

from tests.reference import engines


class Stub:
    """An engine that runs one model: `columns` are the names of the raw features, "field=level" for levels."""

    def __init__(self, content, columns, features):
        self.content, self.columns, self.features = content, columns, features
        self.documents, self.seen = {}, []

    def rows(self, names):
        """The raw features of documents, as the engine sees them."""
        X = np.full((len(names), len(self.columns)), np.nan)
        for i, name in enumerate(names):
            own = self.documents[name]
            for j, column in enumerate(self.columns):
                field, is_level, level = column.partition("=")
                if is_level:
                    has = own.get(field) is not None
                    others = [c.partition("=")[2] for c in self.columns if c.startswith(f"{field}=")]
                    X[i, j] = float(has and (own[field] not in others if level == "*" else own[field] == level))
                elif own.get(field) is not None:
                    X[i, j] = own[field]
        return X

    def vectors(self, names):
        """The vectors of documents, NaN where one is missing."""
        fields = {field: len(v) for one in self.documents.values() for field, v in one.items() if isinstance(v, list)}
        return {
            field: np.array([self.documents[name].get(field) or [np.nan] * k for name in names]) for field, k in fields.items()
        }

    def answer(self, method, path, body):
        """The answer to a request; None if the engine has no such path."""
        raise NotImplementedError


class Elastic(Stub):
    """Elasticsearch with its plugin, or without."""

    def answer(self, method, path, body):
        if (method, path) == ("GET", "/"):
            return {"version": {"number": "8.19.0"}}
        if method == "GET" and path.startswith("/_ltr/_model/"):
            return {"_source": {"model": {"feature_set": {"features": self.features}}}}
        if method == "PUT":
            self.mapping = body["mappings"]["properties"]
            return {"acknowledged": True}
        if path == "/_bulk?refresh=true":
            for action, document in zip(body[::2], body[1::2], strict=True):
                assert set(document) <= set(self.mapping)
                self.documents[action["index"]["_id"]] = document
            return {"errors": False}
        if path.endswith("/_search"):
            query, (ids,) = body["query"]["bool"]["must"][0], body["query"]["bool"]["filter"]
            names = ids["ids"]["values"]
            X = self.rows(names)
            if "sltr" in query:
                scores = engines.plugin(json.loads(self.content), self.columns, X)
            else:
                scores = engines.painless(query, self.columns, X, self.vectors(names))
            hits = [{"_id": name, "_score": float(np.float32(s))} for name, s in zip(names, scores, strict=True)]
            return {"hits": {"hits": hits}}
        if method == "DELETE":
            self.documents.clear()
            return {"acknowledged": True}
        return None


class Solr(Stub):
    """A collection of Solr."""

    def answer(self, method, path, body):
        url = urlsplit(path)
        if url.path.endswith("/admin/system"):
            return {"lucene": {"solr-spec-version": "9.8.0"}}
        if url.path.endswith("/schema/uniquekey"):
            return {"uniqueKey": "key"}
        if url.path.endswith("/schema/model-store"):
            return {"models": [{"name": json.loads(self.content)["name"]}]}
        if url.path.endswith("/schema/feature-store/_DEFAULT_"):
            return {"features": self.features}
        if url.path.endswith("/update"):
            if isinstance(body, dict):
                self.documents.clear()
            else:
                self.documents |= {document["key"]: document for document in body}
            return {}
        if url.path.endswith("/select"):
            asked = parse_qs(url.query)
            assert asked["rq"] == [f"{{!ltr model={json.loads(self.content)['name']} reRankDocs={len(self.documents)}}}"]
            names = [*self.documents]
            scores = engines.solr(json.loads(self.content), self.rows(names))
            return {"response": {"docs": [{"key": n, "score": float(s)} for n, s in zip(names, scores, strict=True)]}}
        return None


class Vespa(Stub):
    """An application of Vespa."""

    def answer(self, method, path, body):
        if path == "/state/v1/version":
            return {"version": "8.500.1"}
        if found := re.fullmatch(r"/document/v1/shop/product/docid/(.*)", path):
            name = unquote(found[1])
            if method == "DELETE":
                del self.documents[name]
            else:
                self.documents[name] = {
                    k: "true" if v is True else "false" if v is False else v for k, v in body["fields"].items()
                }
            return {}
        if path == "/search/":
            assert body["yql"] == "select documentid from product where true"
            names = [*self.documents]
            inputs = {key[12:-1]: value for key, value in body.items() if key.startswith("input.query(")}
            scores = engines.vespa(self.content, self.columns, self.rows(names), self.vectors(names), inputs)
            hits = [{"id": f"id:shop:product::{n}", "relevance": float(s)} for n, s in zip(names, scores, strict=True)]
            return {"root": {"children": hits}}
        return None


@contextlib.contextmanager
def running(stub):
    """The address of a stub, for as long as the context lasts."""

    class Handler(BaseHTTPRequestHandler):
        def reply(self):
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            stub.seen.append((self.command, self.path, self.headers.get("Authorization")))
            lines = self.headers.get("Content-Type") == "application/x-ndjson"
            body = [json.loads(line) for line in data.splitlines()] if lines else json.loads(data or b"null")
            answer = stub.answer(self.command, self.path, body)
            self.send_response(404 if answer is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps({"error": "no such path"} if answer is None else answer).encode())

        do_GET = do_POST = do_PUT = do_DELETE = reply

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
