"""The name of the server in the head of a request: a page on another site can send any, so it is parsed in full."""

import re
from collections.abc import Iterable

from online_rank.serving.asgi import Refused

#: RFC 9110, section 7.2: a name, an IPv4 or a bracketed IP address, and the digits of a port. No user, no path.
_HOST = re.compile(rb"(\[[0-9a-f:.]+\]|[a-z0-9._~!$&'()*+,;=%-]*)(?::[0-9]*)?", re.IGNORECASE)
_LOCAL = {b"localhost", b"127.0.0.1", b"[::1]"}


def is_local(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a request calls this server by a name of this machine, or by none. Raises Refused for other names."""
    given = [value for name, value in headers if name == b"host"]
    found = [_HOST.fullmatch(value) for value in given]
    if len(given) > 1 or None in found:
        raise Refused(400, "the header Host is not a host and the digits of a port, once (RFC 9110, section 7.2)")
    return not found or found[0][1].lower() in _LOCAL  # type: ignore[index]
