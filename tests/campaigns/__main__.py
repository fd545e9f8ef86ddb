"""Is anything lost or torn when processes are killed, disks fail, input is hostile and threads share a model?

    python -m tests.campaigns PART [--minutes 75] [--size 1] [--seed 0] [--write]

A part has campaigns, and a campaign has rounds with different seeds. The rounds come in turn until all are done, or until
the minutes are over; what they count adds up. `--size` is the share of the rounds; with 0.01 each campaign has one. The exit
status is 1 if anything went wrong. `--write` puts the figures into `tests/campaigns/results.md`.

- kills: `train`, `stream` with grades and with clicks, `serve` with one model and with one for each key, a worker of
  `KeyedRankers`, and learners of one stream are killed (SIGKILL) at random instants and started again. What was acknowledged
  must have been learned, once; where the client sends the same in the same order, the model has the bits of a run that nobody
  killed. `kills_windows`: in the middle of events, of a replaced model and of a promotion. `kills_leaders`: of three servers
  of one state in PostgreSQL the one that leads, its connections and the database are killed, or it is stopped until another
  one leads (PostgreSQL's programs are needed). `kills_readers`: a learner under three readers, which 200 clients ask to rank.
- faults: a library between the process and the system lets writes, syncs and renames fail, kills at each such call, and takes
  back what was not synced (`faults`). Disks with anything they may hold after power is lost at any instant, with and without
  calls that failed before (`crashes`). Linux and a C compiler are needed.
- files: files of services with flipped bits, cuts and zeros (`damage`). Files of all models and services, mutated, and with
  right digests and wrong contents (`files`). Folders whose rows were changed (`rows`). Queries of extreme values (`extremes`).
  Numba checks the indices of all kernels.
- interrupts: Ctrl-C at random instants, and errors in each call, over all models, metrics and services (`interrupts`).
- requests: hostile requests to every ranker: the state after an accepted one can be saved and gone on from, a refused one
  changes nothing (`rule`); what requests cost (`costs`); mutated LETOR text, JSON and bodies over HTTP (`hostile`).
- threads: threads that rank, save, copy and pickle what another one teaches, share its steps, or change its arrays.
- lifetime: ten million queries through `History` and the default, with categories, missing values, documents and names that
  come and go, drift and grades that come late: memory, files and time after each 100,000. It continues what the folder
  `LIFETIME` has, and draws it there.
- poison: how far an attacker moves a service: votes of one name and of invented ones, reversed grades, texts for numbers,
  invented levels, first values of another kind, one click of great worth. It also counts comparisons of equal models that end.
- river: 20,000 queries through `TargetAgg`, `TFIDF`, one-hot levels and a `Rolling` mean in a union, before the default, with
  `ADWIN` next to it, saved and loaded in the middle: the second half takes as much time and memory as the first.
- soak: a long stream through the service of 20 tenants, with grades and with events in windows: memory, descriptors and files;
  workers of keys that are killed and change in number (`keyed`).
"""

import argparse
import datetime
import logging
import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks._common import environment, table
from benchmarks._kept import commit
from tests.campaigns import (
    costs,
    crashes,
    damage,
    extremes,
    faults,
    files,
    hostile,
    interrupts,
    keyed,
    kills,
    kills_leaders,
    kills_learners,
    kills_readers,
    kills_served,
    kills_windows,
    lifetime,
    poison,
    races,
    rivers,
    rows,
    rule,
    soak,
    threads,
)
from tests.campaigns.found import Found
from tests.models import SERVED

RESULTS = Path(__file__).parent / "results.md"


class Campaign(NamedTuple):
    """How many rounds make the whole campaign, and one of them, given its seed."""

    rounds: int
    run: Callable[[int], Found]


#: Services whose requests are measured in a round.
_SERVICES = 50

PARTS: dict[str, dict[str, Campaign]] = {
    "kills": {
        "train, two passes": Campaign(25, lambda seed: kills.kill_train(4, seed, ("--passes", "2"))),
        "train, shuffled": Campaign(25, lambda seed: kills.kill_train(4, seed, ("--shuffle", "1"))),
        "stream": Campaign(25, lambda seed: kills.kill_stream(12, seed)),
        "stream, clicks": Campaign(25, lambda seed: kills.kill_stream(4, seed, feedback=kills.clicked)),
        "serve": Campaign(25, lambda seed: kills_served.kill_serve(4, seed)),
        "serve, five tenants": Campaign(25, lambda seed: kills_served.kill_serve(4, seed, tuple("abcde"))),
        "a worker of keys": Campaign(25, lambda seed: kills_served.kill_keyed(8, seed)),
        "two learners of one stream": Campaign(10, lambda seed: kills_learners.kill_learners(20, seed)),
        "serve, three servers on PostgreSQL": Campaign(10, lambda seed: kills_leaders.kill_leaders(20, seed)),
        "serve, a learner and three readers": Campaign(2, lambda seed: kills_readers.kill_learner(5, seed)),
        "serve, events and new models": Campaign(12, lambda seed: kills_windows.kill_windows(16, seed)),
    },
    "faults": {
        "calls that fail, or kill": Campaign(25, lambda seed: faults.faults(40, seed)),
        "states after power loss": Campaign(50, lambda seed: crashes.crashes(100, seed)),
        "calls that fail, then power loss": Campaign(40, lambda seed: crashes.points(40, seed)),
    },
    "files": {
        "damaged folders": Campaign(40, lambda seed: damage.damages(800, seed)),
        "changed files": Campaign(50, lambda seed: files.files(2000, seed)),
        "changed rows": Campaign(10, lambda seed: rows.rows(1000, seed)),
        "extreme values": Campaign(5, lambda seed: extremes.extremes(20_000, seed)),
    },
    "interrupts": {
        "Ctrl-C": Campaign(20, lambda seed: interrupts.interrupts(25, seed)),
        "errors": Campaign(4, lambda seed: interrupts.errors(25, seed)),
    },
    "requests": {
        "hostile requests": Campaign(120, lambda seed: rule.rule(SERVED, seed)),
        "costs of requests": Campaign(_SERVICES, lambda seed: costs.costs(seed % _SERVICES, _SERVICES)),
        "mutated LETOR text": Campaign(10, lambda seed: hostile.fuzz_letor(3000, seed)),
        "mutated JSON": Campaign(10, lambda seed: hostile.fuzz_protocol(3000, seed)),
        "mutated bodies over HTTP": Campaign(10, lambda seed: hostile.fuzz_http(10_000, seed)),
    },
    "threads": {
        "rankings": Campaign(10, lambda seed: threads.threads(6.0)),
        "files, copies, steps and arrays": Campaign(6, lambda seed: races.races(10.0)),
    },
    "lifetime": {
        "ten million queries": Campaign(100, lambda seed: lifetime.lifetime(seed % 1000)),
    },
    "poison": {
        "votes of one name, and of invented ones": Campaign(4, lambda seed: poison.votes(seed)),
        "grades of an attacker": Campaign(4, lambda seed: poison.grades(seed)),
        "odd values and invented levels": Campaign(4, lambda seed: poison.texts(seed)),
        "first values of another kind": Campaign(4, lambda seed: poison.first_values(seed)),
        "the engagement of one click": Campaign(4, lambda seed: poison.engagement(seed)),
        "clicks of one name in a history": Campaign(4, lambda seed: poison.history(seed)),
        "comparisons of equal models": Campaign(9, lambda seed: poison.promises(50, seed)),
    },
    "river": {
        "20,000 queries behind river's transformers": Campaign(3, lambda seed: rivers.rivers(seed=seed)),
    },
    "soak": {
        "grades": Campaign(1, lambda seed: soak.soak_grades(1_000_000, seed)),
        "events in windows": Campaign(1, lambda seed: soak.soak_windows(500_000, seed)),
        "keys, state directory kept": Campaign(5, lambda seed: keyed.keyed(40_000, keeps_directory=True, seed=seed)),
        "keys, state directory lost": Campaign(5, lambda seed: keyed.keyed(40_000, keeps_directory=False, seed=seed)),
    },
}


def measured(campaigns: dict[str, Campaign], minutes: float, size: float, seed: int) -> dict[str, tuple[int, Found]]:
    """How many rounds of each campaign there were, and what they found."""
    until = time.monotonic() + 60.0 * minutes
    wanted = {name: max(1, round(size * each.rounds)) for name, each in campaigns.items()}
    found = {name: (0, Found()) for name in campaigns}
    while time.monotonic() < until:
        # Next is a round of what is furthest behind.
        name = min(campaigns, key=lambda name: found[name][0] / wanted[name])
        number, total = found[name]
        if number == wanted[name]:
            break
        one = campaigns[name].run(1000 * seed + number)
        print(f"{name}, round {number + 1} of {wanted[name]}: {one}", flush=True)
        total.add(one)
        found[name] = number + 1, total
    return found


def section(part: str, found: dict[str, tuple[int, Found]], minutes: float) -> str:
    """The figures of a part, as Markdown."""
    rows = [
        (name, n, ", ".join(f"{count:,} {what.replace('_', ' ')}" for what, count in total.counts.items()), len(total.wrong))
        for name, (n, total) in found.items()
    ]
    made = f"Measured on {datetime.date.today().isoformat()}, commit {commit()}, in {minutes:.0f} minutes: {environment()}."
    return f"## {part}\n\n{table(('campaign', 'rounds', 'what there was', 'wrong'), rows)}\n\n{made}\n"


def write(part: str, text: str) -> None:
    """Put the figures of a part into the page."""
    head, *sections = re.split(r"(?m)^(?=## )", RESULTS.read_text())
    kept = {each.partition("\n")[0]: each.rstrip() + "\n" for each in sections} | {f"## {part}": text}
    RESULTS.write_text("\n".join([head.rstrip() + "\n", *kept.values()]))


def prepared(part: str) -> None:
    """Start this process again where a part needs another environment."""
    if part == "faults" and not faults.interpose():
        raise SystemExit("faults needs Linux and a C compiler")
    if part == "files" and "NUMBA_BOUNDSCHECK" not in os.environ:
        checked = os.environ.get("CHECKED_CACHE") or tempfile.mkdtemp()
        # River's Rust panics at some bytes, which is caught; its traces would read 44 MB of symbols.
        more = {"NUMBA_BOUNDSCHECK": "1", "ONLINE_RANK_JIT": "1", "NUMBA_CACHE_DIR": checked, "RUST_BACKTRACE": "0"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **more})
    if part in ("kills", "faults"):
        kills.warm_up()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("part", choices=PARTS)
    options.add_argument("--minutes", type=float, default=75.0, help="after which no further round begins")
    options.add_argument("--size", type=float, default=1.0, help="the share of the rounds")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--write", action="store_true", help="put the figures into results.md")
    given = options.parse_args()
    prepared(given.part)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)  # Disks that fail are meant to.
    started = time.monotonic()
    found = measured(PARTS[given.part], given.minutes, given.size, given.seed)
    text = section(given.part, found, (time.monotonic() - started) / 60.0)
    print(text, *(f"WRONG, {name}: {what}" for name, (_, total) in found.items() for what in total.wrong), sep="\n")
    if given.write:
        write(given.part, text)
    sys.exit(any(total.wrong for _, total in found.values()))


if __name__ == "__main__":
    main()
