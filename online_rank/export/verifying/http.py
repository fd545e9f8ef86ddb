"""Requests with JSON to a search engine."""

import base64
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

#: Seconds that a request may take.
_TIMEOUT = 60.0
#: How much of an error is shown.
_SHOWN = 400


class Http:
    """Requests to one address, which may have a user and a password: `http://user:password@host:9200`.

    Raises RuntimeError, without the password, for an engine that does not answer, or answers with an error.
    """

    def __init__(self, address: str) -> None:
        parts = urllib.parse.urlsplit(address.rstrip("/"))
        host = parts.netloc.rpartition("@")[2]
        self.address = urllib.parse.urlunsplit((parts.scheme, host, parts.path, "", ""))
        self.path = [urllib.parse.unquote(part) for part in parts.path.split("/") if part]
        self.root = f"{parts.scheme}://{host}"
        self._headers = {}
        if parts.username is not None:
            own = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(own.encode()).decode()}"

    def ask(self, method: str, path: str, body: Any = None, *, lines: bool = False, of_root: bool = False) -> Any:
        """The answer to a request; `lines` sends a list as one JSON a line, `of_root` leaves out the path of the address."""
        url = (self.root if of_root else self.address) + path
        data, kind = None, "application/json"
        if lines:
            data, kind = "".join(json.dumps(one) + "\n" for one in body).encode(), "application/x-ndjson"
        elif body is not None:
            data = json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": kind, **self._headers}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            told = error.read().decode(errors="replace")[:_SHOWN]
            raise RuntimeError(f"{method} {url}: the engine answers {error.code}: {told}") from None
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            raise RuntimeError(f"{method} {url}: no answer ({getattr(error, 'reason', error)})") from None
        except ValueError:
            raise RuntimeError(f"{method} {url}: the answer is not JSON") from None
