"""Does anything get lost, in? Processes killed, disks that fail, damaged and hostile input, threads, and a long run.

    python -m benchmarks.reliability [--campaign 0.05] [--seed 0] [--keep FILE]
        [--only kills,crashes,points,faults,flips,rule,hostile,costs,interrupts,threads,soak]

`--campaign` multiplies the size of everything; 1.0 is the full campaign, hours on two cores; 0.02 is a smoke test. With
`--keep`, parts that were measured before, at this size and with this seed, are not measured again.

- kills: `train`, `stream` for grades and for clicks, `serve` with one model and with one for each key, and a worker of
  `KeyedRankers` are killed (SIGKILL) at random instants and started again. What was acknowledged must have been learned, once;
  where the client sends the same in the same order, the model must be bit for bit that of a run that nobody killed.
- crashes: what a disk may hold after power is lost at any instant, from the calls that a service made: `_crashes`.
- points: each call of a service that writes or syncs fails in turn; it is started again, and power is lost then, too.
- faults: a library between the process and the system (compiled here, where there is a C compiler) lets writing, syncing and
  renaming fail, kills at each such call, and takes back what was not synced. Nothing acknowledged may be lost.
- rule: hostile requests to every ranker: after any that is accepted the state can be saved and gone on from, and any that is
  refused leaves all as it was: `_rule`.
- flips: every byte of a journal, its mark and its checkpoint is changed, one at a time: the service is the same, or refuses.
- hostile: mutated bytes for the LETOR reader, the protocol and the model loader; and model files whose tree and arrays were
  changed, with good checksums, loaded and used under numba's bounds checks. Only documented exceptions are allowed.
- costs: the inputs made to take memory and time that were found, and what they take a byte.
- interrupts, threads: Ctrl-C in the middle of learning; four threads that rank beside one that learns new features.
- soak: a long stream through the service and its journal: memory, open files, and the time of a request.
"""

import contextlib
import os
import resource
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks._common import parser, save, table
from benchmarks._crashes import crashes, points
from benchmarks._faults import faults, interpose
from benchmarks._hostile import Fuzz, costs, fuzz_letor, fuzz_models, fuzz_protocol, structural
from benchmarks._kept import Kept, add_keep
from benchmarks._kills import clicked, kill_stream, kill_train, requests, warm_up
from benchmarks._kills_served import kill_keyed, kill_serve
from benchmarks._rule import rule
from benchmarks._threads import interrupts, lock_cost, threads
from online_rank import PerceptronRanker, StreamScaler
from online_rank.serving.durable import DurableService
from online_rank.serving.protocol import Outcome, RankingService
from online_rank.storage.checkpoint import CheckpointError
from online_rank.storage.files import ModelFileError, to_bytes

Row = tuple[object, ...]


class Flips(NamedTuple):
    flips: int
    refused: int
    other_models: int


class Soak(NamedTuple):
    queries: int
    growth_mb: float
    open_files: int
    percentiles: dict[str, float]


def flips(step: int = 1) -> Flips:
    """Change every `step`-th byte of what a service keeps, one at a time, and start it again."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "state"
        state = serving(place, every=30)
        for line in requests(25, 3):
            reply = state.service.handle(line)
            commit(state, [reply.outcome], reply.learned)
        expected = to_bytes(state.service)
        state.close()
        files = {path.name: path.read_bytes() for path in place.iterdir() if path.name != "owner"}
        n = refused = other = 0
        for name, content in files.items():
            for i in range(0, len(content), step):
                n += 1
                (place / name).write_bytes(content[:i] + bytes([content[i] ^ (1 << i % 8)]) + content[i + 1 :])
                try:
                    again = serving(place, every=30)
                    other += to_bytes(again.service) != expected
                    again.close()
                except (CheckpointError, ModelFileError, OSError):
                    refused += 1
                for each, before in files.items():
                    (place / each).write_bytes(before)
    return Flips(n, refused, other)


def serving(place: Path, every: int) -> DurableService:
    return DurableService(RankingService(StreamScaler() | PerceptronRanker()), place, every)


def commit(state: DurableService, outcomes: list[Outcome | None], learned: bool) -> None:
    state.append(outcomes, sync=learned)
    state.between_commits()


def soak(n_queries: int, seed: int = 0) -> Soak:
    """Rank and learn from a long stream through the service, a hundred requests a commit, with its journal and checkpoints.

    Memory is compared with that after a tenth of it. The same queries come again and again, under new ids.
    """
    pool = [line for line in requests(500, seed) if b'"docs"' in line]
    bodies = [line.split(b", ", 1)[1] for line in pool]
    grades = [b'"grades": {' + b", ".join(b'"d%d": %d' % (i, (i + q) % 3) for i in range(6)) + b"}}" for q in range(len(pool))]
    microseconds = np.zeros(n_queries, dtype=np.float32)  # touched now, so that it does not count as growth
    warm = 0.0
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(serving(Path(folder) / "state", 100_000)) as state:
        outcomes: list[Outcome | None] = []
        for q in range(n_queries):
            start = time.perf_counter_ns()
            for body in (bodies[q % len(bodies)], grades[q % len(grades)]):
                line = b'{"id": %d, %s' % (q, body)
                outcomes.append(state.service.handle(line).outcome)
            microseconds[q] = (time.perf_counter_ns() - start) / 1e3
            if len(outcomes) >= 100:
                commit(state, outcomes, True)
                outcomes = []
            if q == n_queries // 10:
                warm = resident_mb()
        open_files = len(os.listdir("/proc/self/fd"))
        growth = resident_mb() - warm
    steady = microseconds[n_queries // 10 :]
    return Soak(n_queries, growth, open_files, {f"p{p:g}": float(np.percentile(steady, p)) for p in (50, 99, 99.9)})


def resident_mb() -> float:
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def show_kills(size: float, seed: int) -> list[Row]:
    n = max(3, int(1000 * size))
    rows: list[Row] = []
    for name, extra in (("train, 2 passes", ("--passes", "2")), ("train --seed", ("--seed", "1"))):
        k = kill_train(max(3, n // 10), seed, extra)
        rows.append((f"{name}: kills / same model / same figures", k.kills, yes(k.same_model), yes(k.same_figures)))
    s = kill_stream(max(3, 3 * n // 10), seed)
    rows.append(("stream: kills / grades acknowledged / lost or doubled", s.kills, f"{s.acknowledged:,}", s.lost))
    rows.append(("stream: same model as without kills", "", yes(s.same_model), ""))
    s = kill_stream(max(3, n // 10), seed, feedback=clicked)
    rows.append(("stream --clicks: kills / clicks acknowledged / lost or doubled", s.kills, f"{s.acknowledged:,}", s.lost))
    for name, keys in (("serve", ()), ("serve --key, 5 tenants, 2 in memory", ("a", "b", "c", "d", "e"))):
        h = kill_serve(max(3, n // 10), seed, keys)
        rows.append(
            (f"{name}: kills / grades acknowledged / lost or doubled", h.kills, f"{h.acknowledged:,}", h.lost + h.doubled)
        )
    w = kill_keyed(max(3, n // 5), seed)
    rows.append(("keyed worker: kills / grades learned / lost or doubled", w.kills, f"{w.learned:,}", w.lost))
    return [*rows, ("keyed worker: same model as without kills", "", yes(w.same_model), "")]


def show_crashes(size: float, seed: int) -> list[Row]:
    if not interpose():
        return [("crashes: no C compiler", "", "", "")]
    c = crashes(max(20, int(5000 * size)), seed)
    return [
        ("states after power loss / acknowledged before, in all / lost", f"{c.states:,}", f"{c.acknowledged:,}", c.lost),
        ("states after power loss: other models / refused to start", "", c.other_models, c.refused),
    ]


def show_points(size: float, seed: int) -> list[Row]:
    if not interpose():
        return [("points: no C compiler", "", "", "")]
    p = points(max(8, int(2000 * size)), seed)
    return [
        ("calls that fail: points / the service stopped / acknowledged, in all", p.points, p.stopped, f"{p.acknowledged:,}"),
        ("calls that fail, restarts and power loss after: lost / other models / refused", p.lost, p.other_models, p.refused),
    ]


def show_rule(size: float, seed: int) -> list[Row]:
    from tests.serving.test_rule import MODELS

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        r = rule(MODELS, max(100, int(300_000 * size)), seed)
    complain(r.broken)
    return [
        (f"hostile requests to {len(MODELS)} models: requests / accepted / refused", f"{r.requests:,}", f"{r.accepted:,}",
         f"{r.refused:,}"),
        ("hostile requests: folders reopened / the rule broken", "", f"{r.reopened:,}", len(r.broken)),
    ]  # fmt: skip


def show_faults(size: float, seed: int) -> list[Row]:
    if not interpose():
        return [("faults: no C compiler", "", "", "")]
    f = faults(max(8, int(1000 * size)), seed)
    return [
        ("faults of the disk: points / grades acknowledged / lost", f.points, f"{f.acknowledged:,}", f.lost),
        ("faults of the disk: other models / refused to start again", "", f.other_models, f.refused),
    ]


def show_flips(size: float, seed: int) -> list[Row]:
    f = flips(max(1, round(1 / size)))
    return [
        ("bytes of the service's state changed / refused / another model silently", f"{f.flips:,}", f.refused, f.other_models)
    ]


def show_hostile(size: float, seed: int) -> list[Row]:
    n = max(100, int(100_000 * size))
    rows: list[Row] = []
    fuzzers: list[tuple[str, Callable[[int, int], Fuzz]]] = [
        ("LETOR text", fuzz_letor),
        ("JSON lines", fuzz_protocol),
        ("model files, mutated bytes", fuzz_models),
    ]
    for name, run in fuzzers:
        f = run(n // 3 + 1, seed)
        rows.append((f"{name}: inputs / refused / crashes and hangs", f"{f.inputs:,}", f"{f.refused:,}", len(f.crashes)))
        complain(f.crashes)
    m = structural(n, seed)
    complain(m.crashes)
    counts = f"{m.files:,}", f"{m.loaded:,}", len(m.crashes)
    return [
        *rows,
        ("model files, changed parts, bounds checked: files / loaded and used / crashes and other exceptions", *counts),
        ("model files, changed parts: largest file in bytes / peak memory, MB", m.largest_file, f"{m.peak_mb:.1f}", ""),
    ]


def show_costs(size: float, seed: int) -> list[Row]:
    rows: list[Row] = []
    for c in costs():
        name = f"{c.what}: input bytes / memory a byte / s per 100 kB"
        rows.append((name, f"{c.input_bytes:,}", f"{c.bytes_a_byte:.1f}", f"{c.seconds_a_100_kb:.3f}"))
    return rows


def show_interrupts(size: float, seed: int) -> list[Row]:
    i = interrupts(max(20, int(2000 * size)), seed)
    return [("Ctrl-C while learning: interrupts / torn models", i.interrupts, i.torn, "")]


def show_threads(size: float, seed: int) -> list[Row]:
    t = threads(max(1.0, 60.0 * size))
    complain(t.errors)
    name = f"{t.seconds:g} s of 4 threads beside a learner: queries / different readings / torn"
    return [
        (name, f"{t.queries:,}", f"{t.readings:,}", t.torn),
        ("the same: errors / cost of a lock, ns", len(t.errors), f"{lock_cost():.0f}", ""),
    ]


def show_soak(size: float, seed: int) -> list[Row]:
    s = soak(max(1000, int(2_000_000 * size)), seed)
    return [
        ("long run: queries / growth of memory, MB / open files", f"{s.queries:,}", f"{s.growth_mb:.2f}", s.open_files),
        ("rank and learn by JSON, µs: " + " / ".join(s.percentiles), *(f"{v:.0f}" for v in s.percentiles.values())),
    ]


PARTS: dict[str, Callable[[float, int], list[Row]]] = {
    "kills": show_kills,
    "crashes": show_crashes,
    "points": show_points,
    "rule": show_rule,
    "faults": show_faults,
    "flips": show_flips,
    "hostile": show_hostile,
    "costs": show_costs,
    "interrupts": show_interrupts,
    "threads": show_threads,
    "soak": show_soak,
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--campaign", type=float, default=0.05, help="size of everything; 1.0 is the full campaign")
    options.add_argument("--only", default=",".join(PARTS), help="parts to run, by comma")
    options.add_argument("--seed", type=int, default=0)
    add_keep(options)
    given = options.parse_args()
    kept = Kept(given.keep)
    names = [name for name in PARTS if name in given.only.split(",")]
    if {"faults", "crashes", "points"} & {*names}:
        interpose()
    if {"kills", "faults"} & {*names}:
        warm_up()
    sections = []
    for name in names:
        part = f"{name}, size {given.campaign:g}, seed {given.seed}"
        rows = kept.part(part, partial(PARTS[name], given.campaign, given.seed))
        print(*rows, sep="\n", flush=True)
        sections.append(f"## {name}\n\n{table(('what', '1', '2', '3'), rows)}\n\n{kept.code_of(part)}")
    note = "Each part with the command that wrote it; `--campaign` multiplies its size, and the module says what it does."
    save("reliability", "\n\n".join(["# Reliability", note, *sections]), part=True)


def complain(crashes: list[str]) -> None:
    for crash in crashes[:20]:
        print("   ", crash)


def yes(value: bool) -> str:
    return "yes" if value else "NO"


if __name__ == "__main__":
    main()
