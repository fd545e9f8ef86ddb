"""One process learns: a server that runs an application in several workers is refused."""

import contextlib
import hashlib
import os
import socket
import stat
import sys

REMEDY = (
    "each worker would learn a separate model. Start one (uvicorn --workers 1; gunicorn --workers 1, without --preload); for "
    "more throughput divide the keys among several servers, each with a separate folder"
)

#: The claims of this process, by name; each is a socket, and the system has one with that name. They end with the process.
_CLAIMS: dict[str, socket.socket] = {}

if hasattr(os, "register_at_fork"):
    # A forked child makes its claims; the claims of its parent stay the parent's.
    os.register_at_fork(after_in_child=_CLAIMS.clear)


class OnlyWorker:
    """The claim to be the only process that answers on the sockets of this one, which workers inherit from their server.

    Without sockets that others may have, and on systems other than Linux, the claim always succeeds.
    """

    def __init__(self) -> None:
        self._process = os.getpid()

    def claim(self) -> None:
        """Raise RuntimeError if another process answers on the same sockets, or if this one was forked after `__init__`."""
        if os.getpid() != self._process:
            raise RuntimeError(f"the application was made before its server forked this process: {REMEDY}")
        if sys.platform == "linux":
            for name in _sockets() - _CLAIMS.keys():
                claim = socket.socket(socket.AF_UNIX)
                try:
                    claim.bind(f"\0online_rank-{name}")
                except OSError:
                    claim.close()
                    raise RuntimeError(f"another process serves the same port with this application: {REMEDY}") from None
                _CLAIMS[name] = claim


def _sockets() -> set[str]:
    """Digests of the sockets by which this process can be reached."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # The descriptor of the listing itself is closed by now.
            status = os.fstat(int(name))
            if stat.S_ISSOCK(status.st_mode):
                with socket.socket(fileno=os.dup(int(name))) as one:
                    if one.type == socket.SOCK_STREAM and _is_bound(one.getsockname()) and not _has_peer(one):
                        found.add(hashlib.sha256(f"{status.st_ino} {one.getsockname()}".encode()).hexdigest()[:32])
    return found


def _is_bound(address: object) -> bool:
    """Whether an address is one that clients can connect to."""
    if isinstance(address, tuple):
        return bool(address[1])
    return bool(address) and not str(address).startswith(("\0", "b'\\x00"))


def _has_peer(one: socket.socket) -> bool:
    """Whether a socket belongs to a connection."""
    try:
        one.getpeername()
    except OSError:
        return False
    return True
