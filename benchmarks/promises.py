"""How often is a fair comparison decided wrongly? Votes of users of one taste, of users with many votes, and of bots.

    python -m benchmarks.promises [--runs N] [--votes N]

Each user prefers the serving model or the challenger, with the same probability, and votes so again and again: nobody is
better. A bot votes for the challenger, always under one name. A run counts as wrong if the interval at 95 % says at any time
that one of the two is better. `once` has the rules of the service (`ServiceState.takes_share`), `each` counts all votes alike.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from benchmarks._common import parser, save, table
from online_rank.base.undo import all_or_nothing
from online_rank.rankers.fixed import FixedRanker
from online_rank.serving import Challenge, RankingService
from online_rank.serving.reading import Evidence

#: Votes of each user, and the share of all votes that a bot has under one name.
SETTINGS = ((1, 0.0), (5, 0.0), (20, 0.0), (1, 0.01), (1, 0.03), (1, 0.1))
#: Looks at the interval, one after this many votes that count.
_BETWEEN = 10
#: Users that vote at the same time.
_AT_ONCE = 5


class Promise(NamedTuple):
    """How a comparison ended in many runs.

    Attributes
    ----------
    runs, wrong, promoted
        Number of runs; runs in which the interval called one of the two better; runs in which it called the challenger better.
    n
        Votes that counted in the last run.
    """

    runs: int
    wrong: int
    promoted: int
    n: int


def promise(runs: int, votes: int, bots: float, *, n_votes: int = 4000, once: bool = True, seed: int = 0) -> Promise:
    """Run fair comparisons of `n_votes` votes: `votes` of each user, and `bots` of all under one name."""
    wrong = promoted = n = 0
    for run in range(runs):
        rng = np.random.default_rng([seed, run, votes, round(1000 * bots)])
        service, challenge = RankingService(FixedRanker({"x": 1.0})), Challenge(FixedRanker({"x": -1.0}), promote_at=0.95)
        n = 0
        for user, won in _votes(rng, votes, bots, n_votes):
            changes = all_or_nothing()
            whose = service.takes_share(changes, Evidence(1, (user,))) if once else None
            if not challenge._counts(whose):
                continue
            n += 1
            challenge._update({"serving": won, "challenger": 1.0 - won})
            if n % _BETWEEN == 0 and (better := challenge.paired.better(0.95)):
                wrong += 1
                promoted += better[0].better == "challenger"
                break
    return Promise(runs, wrong, promoted, n)


def _votes(rng: np.random.Generator, votes: int, bots: float, n_votes: int) -> Iterator[tuple[str, float]]:
    """The votes of a run, each by the name of its user: 1.0 for the challenger."""
    users, made = dict[int, list[float]](), 0
    for _ in range(n_votes):
        if rng.random() < bots:
            yield "bot", 1.0
            continue
        if len(users) < _AT_ONCE:
            made += 1
            users[made] = [float(rng.random() < 0.5), votes]
        user = [*users][rng.integers(len(users))]
        yield str(user), users[user][0]
        users[user][1] -= 1
        if not users[user][1]:
            del users[user]


def main() -> None:
    """Print the table of promises."""
    options = parser(__doc__)
    options.add_argument("--runs", type=int, default=450)
    options.add_argument("--votes", type=int, default=2000)
    arguments = options.parse_args()
    rows = []
    for votes, bots in SETTINGS:
        who = f"users with {votes} vote{'s' * (votes > 1)} each" + (f", {100 * bots:g} % of a bot" if bots else "")
        found = [promise(arguments.runs, votes, bots, n_votes=arguments.votes, once=once) for once in (True, False)]
        rows.append([who, *[f"{each.wrong} of {each.runs} ({100 * each.wrong / each.runs:.1f} %)" for each in found]])
        print(*rows[-1], sep="\t", flush=True)
    note = (
        "Two models that are equally good are compared by votes, 2,000 in a run. A run that calls one of them better is wrong; "
        "the level is 95 %. "
        "Votes of one name count once, or each."
    )
    header = ["votes of", "once: decided wrongly", "each: decided wrongly"]
    save("promises", f"# Votes of people who vote often\n\n{note}\n\n{table(header, rows)}")


if __name__ == "__main__":
    main()
