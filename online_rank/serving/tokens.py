"""Tokens by role: who may rank, who may teach, and who may administer."""

import hmac
import itertools
import re
from collections.abc import Collection, Iterable, Mapping

from online_rank.serving.kinds import KINDS

#: Ranking and explaining; feedback; everything, such as models, figures, forgetting.
ROLES = ("rank", "learn", "admin")
#: The kinds of requests of each role but the last, which has all.
_KINDS = {"rank": frozenset({"rank", "explain"}), "learn": frozenset({"teach", *(kind.__name__.lower() for kind in KINDS)})}
_LEAST = 8


class Tokens:
    """The tokens that clients may send.

    Parameters
    ----------
    tokens
        The tokens of each role, `{"rank": ["..."], "learn": ["...", "..."], "admin": ["..."]}`. Several for a role allow a new
        one before the old one goes. A token may have several roles.

    Raises
    ------
    ValueError
        A role is unknown, or a token is shorter than 8 characters or has characters that a header cannot hold.

    Examples
    --------
    >>> tokens = Tokens({"rank": ["searchsearch"], "learn": ["clicksclicks", "searchsearch"]})
    >>> sorted(tokens.roles_of(b"searchsearch")), sorted(tokens.roles_of(b"unknown"))
    (['learn', 'rank'], [])
    """

    def __init__(self, tokens: Mapping[str, Iterable[str]]) -> None:
        self._tokens: list[tuple[str, bytes]] = []
        for role, given in tokens.items():
            if role not in ROLES:
                raise ValueError(f"{role[:40]!r} is no role; there are {', '.join(ROLES)}")
            for token in [given] if isinstance(given, str) else given:
                if not re.fullmatch(rf"[!-~]{{{_LEAST},}}", token):
                    raise ValueError(f"a token of the role {role} is shorter than {_LEAST} characters, or is not plain ASCII")
                self._tokens.append((role, token.encode()))

    def roles_of(self, token: bytes) -> frozenset[str]:
        """The roles of a token; none if it is unknown. It takes as long for each."""
        return frozenset([role for role, known in self._tokens if hmac.compare_digest(known, token)])


def kinds_of(roles: Collection[str]) -> frozenset[str] | None:
    """The kinds of requests that a client with these roles may send; None for all.

    Examples
    --------
    >>> sorted(kinds_of({"rank"})), kinds_of({"rank", "admin"})
    (['explain', 'rank'], None)
    """
    return None if "admin" in roles else frozenset().union(*(_KINDS[role] for role in roles))


def roles_without(kind: str, kinds: Collection[str]) -> list[str]:
    """The roles that may send requests of a kind, if `kinds` are what roles without it may send; none otherwise.

    Examples
    --------
    >>> roles_without("rank", kinds_of({"learn"})), roles_without("rank", ("explain",))
    (['rank', 'admin'], [])
    """
    allowed = [role for role, those in _KINDS.items() if {*those} <= {*kinds}]
    return [*(role for role, those in _KINDS.items() if kind in those), "admin"] if allowed else []


def tokens_in(text: str) -> dict[str, list[str]]:
    r"""The tokens in a file: a role and a token on each line; # begins a comment. Raises ValueError.

    Examples
    --------
    >>> tokens_in("rank searchsearch  # until May\n\nlearn clicksclicks")
    {'rank': ['searchsearch'], 'learn': ['clicksclicks']}
    """
    found: dict[str, list[str]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = [*itertools.takewhile(lambda word: not word.startswith("#"), line.split())]
        if words and len(words) != 2:
            raise ValueError(f"line {number} of the tokens is not a role and a token")
        if words:
            found.setdefault(words[0], []).append(words[1])
    return found
