"""Does anything get lost, in? Processes killed, disks that fail, damaged and hostile input, threads, and a long run.

    python -m benchmarks.reliability [--campaign 0.05] [--seed 0] [--keep FILE] [--minutes 30]
        [--only kills,eventkills,crashes,points,rule,interrupts,files,rows,extremes,requests,damage,
                faults,hostile,costs,threads,soak,windows,keyed]

`--campaign` multiplies the size of everything; 1.0 is the full campaign, hours on two cores; 0.02 is a smoke test. With
`--keep`, parts that were measured before, with this seed, are not measured again. The first eleven are measured in slices, in
turn, and each slice is kept: with `--minutes` they stop early, and another run adds to them.

- kills: `train`, `stream` for grades and for clicks, `serve` with one model and with one for each key, and a worker of
  `KeyedRankers` are killed (SIGKILL) at random instants and started again. What was acknowledged must have been learned, once;
  where the client sends the same in the same order, the model must be bit for bit that of a run that nobody killed.
- eventkills: `serve` is killed in the middle of feedback in many events, of replaced models, and of a challenger's promotion;
  what it has must be what a service has that nobody killed, bit for bit: `_kills_windows`.
- crashes: what a disk may hold after power is lost at any instant, from the calls that a service made: `_crashes`.
- points: each call of a service that writes or syncs fails in turn; it is started again, and power is lost then, too.
- faults: a library between the process and the system (compiled here, where there is a C compiler) lets writing, syncing and
  renaming fail, kills at each such call, and takes back what was not synced. Nothing acknowledged may be lost.
- rule: hostile requests to every ranker: after any that is accepted the state can be saved and gone on from, and any that is
  refused leaves all as it was: `_rule`.
- damage: the files of a small folder are changed, cut and removed, one at a time: the service is the same, or refuses:
  `_damage`.
- hostile: mutated bytes for the LETOR reader, the protocol and the model loader; and model files whose tree and arrays were
  changed, with good checksums, loaded and used under numba's bounds checks. Only documented exceptions are allowed.
- costs: the inputs made to take memory and time that were found, and what they take a byte.
- rows: folders of services whose rows were changed, with right digests and wrong contents: `_rows`.
- requests: what requests of all kinds cost with all models, beyond the model's own time: `_costs`.
- interrupts: Ctrl-C and lacks of memory before random bytecodes, single and double, over all models, metrics and services:
  `_interrupts`.
- threads: four threads that rank beside one that learns new features; and others that save, copy and pickle its model, share
  its steps, or change its arrays: `_races`.
- extremes: queries of extreme values, under numba's bounds checks: `_extremes`.
- files: files of all models and services, mutated, and with right digests and wrong contents: `_files`.
- soak, windows: a long stream through the service of 20 tenants: memory, descriptors and files, with grades, and with events
  that are learned when windows end: `_soak`.
- keyed: events of 20 keys in two topics, late and doubled ones among them, through workers of which ten are killed, and whose
  number changes from one to three and back, with and without a state directory: `_keyed`.
"""

import math
import warnings
from collections.abc import Callable
from functools import partial

from benchmarks._campaigns import Campaign, Progress, Row, Tally, seed_of
from benchmarks._common import parser, save, table
from benchmarks._costs import WIDE, RequestCost, request_costs
from benchmarks._crashes import Crashes, Points, crashes, points
from benchmarks._damage import damages
from benchmarks._extremes import extremes
from benchmarks._faults import faults, interpose
from benchmarks._files import files
from benchmarks._hostile import Fuzz, costs, fuzz_letor, fuzz_models, fuzz_protocol, structural
from benchmarks._interrupts import interrupts
from benchmarks._kept import Kept, add_keep
from benchmarks._keyed import keyed
from benchmarks._kills import Kills, StreamKills, clicked, kill_stream, kill_train, warm_up
from benchmarks._kills_served import KeyedKills, ServedKills, kill_keyed, kill_serve
from benchmarks._kills_windows import WindowKills, kill_windows
from benchmarks._races import races
from benchmarks._rows import rows
from benchmarks._rule import Rule, rule
from benchmarks._soak import TENANTS, Soak, soak_grades, soak_windows
from benchmarks._threads import lock_cost, threads


def kills(number: int, seed: int) -> Tally:
    """Forty kills; the full campaign has 25 slices of them."""
    own = seed_of(seed, number)
    return {
        "train, 2 passes": kill_train(4, own, ("--passes", "2"))._asdict(),
        "train --shuffle": kill_train(4, own, ("--shuffle", "1"))._asdict(),
        "stream": kill_stream(12, own)._asdict(),
        "stream --ranker swap": kill_stream(4, own, feedback=clicked)._asdict(),
        "serve": kill_serve(4, own)._asdict(),
        "serve --key": kill_serve(4, own, ("a", "b", "c", "d", "e"))._asdict(),
        "keyed": kill_keyed(8, own)._asdict(),
    }


def kill_rows(tally: Tally) -> list[Row]:
    rows: list[Row] = []
    for name in ("train, 2 passes", "train --shuffle"):
        k = Kills(**tally[name])
        rows.append((f"{name}: kills / same model / same figures", k.kills, yes(k.same_model), yes(k.same_figures)))
    s, c, w = StreamKills(**tally["stream"]), StreamKills(**tally["stream --ranker swap"]), KeyedKills(**tally["keyed"])
    rows.append(("stream: kills / grades acknowledged / lost or doubled", s.kills, f"{s.acknowledged:,}", s.lost))
    rows.append(("stream: same model as without kills", "", yes(s.same_model), ""))
    rows.append(("stream --ranker swap: kills / clicks acknowledged / lost or doubled", c.kills, f"{c.acknowledged:,}", c.lost))
    for name, shown in (("serve", "serve"), ("serve --key", "serve --key, 5 tenants, 2 in memory")):
        h = ServedKills(**tally[name])
        rows.append(
            (f"{shown}: kills / grades acknowledged / lost or doubled", h.kills, f"{h.acknowledged:,}", h.lost + h.doubled)
        )
    rows.append(("keyed worker: kills / grades learned / lost or doubled", w.kills, f"{w.learned:,}", w.lost))
    rows.append(("keyed worker: same model as without kills", "", yes(w.same_model), ""))
    return [*rows, ("all: kills", sum(counts["kills"] for counts in tally.values()), "", "")]


def event_kills(number: int, seed: int) -> Tally:
    """Twenty kills in the middle of feedback in many events and of replaced models."""
    seed = seed_of(seed, number)
    return {"events": kill_windows(20, seed)._asdict()}


def event_kill_rows(tally: Tally) -> list[Row]:
    k = WindowKills(**tally["events"])
    return [
        ("events in windows, replaced models: kills / queries / events", k.kills, f"{k.queries:,}", f"{k.events:,}"),
        ("the same: models replaced / same model / same counts as without kills", k.replaced, yes(k.same_model),
         yes(k.same_counts)),
        ("the same: challengers promoted", k.promoted, "", ""),
        ("all: kills", k.kills, "", ""),
    ]  # fmt: skip


def crash_rows(tally: Tally) -> list[Row]:
    c = Crashes(**tally["crashes"])
    return [
        ("states after power loss / acknowledged before, in all / lost", f"{c.states:,}", f"{c.acknowledged:,}", c.lost),
        ("states after power loss: other models / refused to start", "", c.other_models, c.refused),
    ]


def point_rows(tally: Tally) -> list[Row]:
    p = Points(**tally["points"])
    return [
        ("calls that fail: points / the service stopped / acknowledged, in all", p.points, p.stopped, f"{p.acknowledged:,}"),
        ("calls that fail, restarts and power loss after: lost / other models / refused", p.lost, p.other_models, p.refused),
    ]


def hostile_requests(number: int, seed: int) -> Tally:
    """Sixty hostile requests to each model."""
    from tests.serving.test_rule import MODELS

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {"rule": {"models": [*MODELS], **rule(MODELS, seed_of(seed, number))._asdict()}}


def rule_rows(tally: Tally) -> list[Row]:
    counts = dict(tally["rule"])
    n_models, r = len({*counts.pop("models")}), Rule(**counts)
    complain(r.broken)
    return [
        (f"hostile requests to {n_models} models: requests / accepted / refused", f"{r.requests:,}", f"{r.accepted:,}",
         f"{r.refused:,}"),
        ("hostile requests: folders reopened / the rule broken", "", f"{r.reopened:,}", len(r.broken)),
    ]  # fmt: skip


def damage_rows(tally: Tally) -> list[Row]:
    rows: list[Row] = []
    for name, c in tally.items():
        complain(c["other"])
        rows.append((f"{name}: damages / refused / harmless", f"{c['cases']:,}", f"{c['refused']:,}", f"{c['harmless']:,}"))
        rows.append((f"{name}: the kind that cannot be told / anything else", "", c["untold"], len(c["other"])))
    return rows


def show_faults(size: float, seed: int) -> list[Row]:
    f = faults(max(8, int(1000 * size)), seed)
    return [
        ("faults of the disk: points / grades acknowledged / lost", f.points, f"{f.acknowledged:,}", f.lost),
        ("faults of the disk: other models / refused to start again", "", f.other_models, f.refused),
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


def cost_slice(number: int, seed: int) -> Tally:
    """A fiftieth of the services."""
    return {"costs": {"found": [[*each] for each in request_costs(lambda service, _: service % 50 == number)]}}


def _named(cost: RequestCost) -> str:
    """The model and its request, for a cell of a table."""
    return f"{cost.model}: {cost.what}{' (refused)' if cost.refused else ''}".replace("|", r"\|")


def cost_rows(tally: Tally) -> list[Row]:
    found = [RequestCost(*each) for each in tally["costs"]["found"]]
    complain([f"{each.model}: {each.refused}" for each in found if each.what == "all"])
    rows: list[Row] = [
        (
            f"requests to {len({each.model for each in found})} services / refused",
            len(found),
            sum(map(bool, (each.refused for each in found))),
            "",
        )
    ]
    for title, few in (("of models that know few features", False), ("of models that know 2,000", True)):
        some = [each for each in found if each.model.endswith(WIDE) is few]
        memory = sorted({each.bytes_a_byte: each for each in some}.items(), reverse=True)[:8]
        seconds = sorted({each.seconds_a_mb: each for each in some}.items(), reverse=True)[:8]
        answered = [each for each in some if not each.refused]
        over = sum(each.bytes_a_byte > 64.0 for each in answered), sum(each.seconds_a_mb > 1.0 for each in some)
        rows.append((f"{title}: requests / answered, over 64 bytes a byte / over 1 s a MB", len(some), *over))
        rows += [(f"memory: {_named(each)}: bytes / bytes a byte", each.size, f"{worst:.1f}", "") for worst, each in memory]
        rows += [
            (f"time: {_named(each)}: bytes / s a MB / the model's own, ms", each.size, f"{worst:.2f}",
             f"{1e3 * each.own_seconds:.1f}") for worst, each in seconds
        ]  # fmt: skip
    return rows


def interrupt_rows(tally: Tally) -> list[Row]:
    i = dict(tally["interrupts"])
    complain(i["torn"])
    return [
        (f"exceptions before random bytecodes, {len({*i['scenarios']})} calls: cases / of these double / torn",
         f"{i['cases']:,}", f"{i['doubled']:,}", len(i["torn"])),
        ("the state was as before / as after", f"{i['before']:,}", f"{i['after']:,}", ""),
    ]  # fmt: skip


def show_threads(size: float, seed: int) -> list[Row]:
    seconds = max(1.0, 60.0 * size)
    t = threads(seconds)
    complain(t.errors)
    name = f"{t.seconds:g} s of 4 threads beside a learner: queries / different readings / torn"
    rows: list[Row] = [
        (name, f"{t.queries:,}", f"{t.readings:,}", t.torn),
        ("the same: errors / cost of a lock, ns", len(t.errors), f"{lock_cost():.0f}", ""),
    ]
    for kind, found in races(seconds).items():
        complain(found["torn"])
        what = "refused" if kind.startswith("changed") else "looked at"
        rows.append((f"{seconds:g} s, {kind}: calls / {what} / torn, or crashes", f"{found['calls']:,}", f"{found['looks']:,}",
                     len(found["torn"])))  # fmt: skip
    return rows


def extreme_rows(tally: Tally) -> list[Row]:
    e = tally["extremes"]
    complain(e["wrong"])
    return [
        (f"queries of extreme values to {len({*e['models']})} models, bounds checked: queries / learned / refused",
         f"{e['queries']:,}", f"{e['learned']:,}", f"{e['refused']:,}"),
        ("IndexErrors / all errors that this library did not raise", e["index_errors"], len(e["wrong"]), ""),
    ]  # fmt: skip


def file_rows(tally: Tally) -> list[Row]:
    f = tally["files"]
    complain(f["wrong"])
    return [
        ("changed files of models and services: files / refused / loaded and used", f"{f['files']:,}", f"{f['refused']:,}",
         f"{f['loaded']:,}"),
        ("crashes, hangs and errors that this library did not raise", len(f["wrong"]), "", ""),
    ]  # fmt: skip


def changed_row_rows(tally: Tally) -> list[Row]:
    r = tally["rows"]
    complain(r["wrong"])
    return [
        ("folders with changed rows: folders / refused / opened and used", f"{r['folders']:,}", f"{r['refused']:,}",
         f"{r['opened']:,}"),
        ("errors that this library did not raise", len(r["wrong"]), "", ""),
    ]  # fmt: skip


def show_soak(size: float, seed: int) -> list[Row]:
    return soak_rows(soak_grades(max(1000, int(2_000_000 * size)), seed))


def show_windows(size: float, seed: int) -> list[Row]:
    return soak_rows(soak_windows(max(4000, int(1_000_000 * size)), seed))


def show_keyed(size: float, seed: int) -> list[Row]:
    rows: list[Row] = []
    for name, keeps in (("state directory kept", True), ("state directory lost", False)):
        k = keyed(max(2000, int(200_000 * size)), keeps_directory=keeps, seed=seed)
        rows += [
            (f"{name}: events / queries learned / seconds", f"{k.events:,}", f"{k.graded:,}", f"{k.seconds:.0f}"),
            ("workers 1, 3, 1: killed / events that came again / keys that differ", k.kills, f"{k.again:,}", k.lost_keys),
            ("one digest as without kills / largest message of the changelog, bytes", yes(k.same), f"{k.largest:,}", ""),
        ]
    return rows


def soak_rows(s: Soak) -> list[Row]:
    first, last = s.readings[0], s.readings[-1]
    descriptors = [reading.descriptors for reading in s.readings[1:]]
    files = [reading.files for reading in s.readings[1:]]
    queries = f"{TENANTS} tenants: queries / feedback acknowledged / seconds"
    memory = "memory, MB: after a tenth / at the end / largest change after a tenth, %"
    return [
        (queries, f"{s.queries:,}", f"{s.feedback:,}", f"{s.seconds:.0f}"),
        ("of the feedback: " + " / ".join(s.counts), *(f"{count:,}" for count in s.counts.values())),
        (memory, f"{first.memory_mb:.1f}", f"{last.memory_mb:.1f}", f"{100.0 * s.largest_change:.1f}"),
        ("descriptors after each tenth: fewest / most", min(descriptors), max(descriptors), ""),
        ("files of all tenants after each tenth: fewest / most", min(files), max(files), ""),
        ("size of the folder, MB: after a tenth / at the end", f"{first.folder_mb:.1f}", f"{last.folder_mb:.1f}", ""),
    ]


CAMPAIGNS = {
    "kills": Campaign(25, kills, kill_rows),
    "eventkills": Campaign(25, event_kills, event_kill_rows),
    "crashes": Campaign(50, lambda number, seed: {"crashes": crashes(100, seed_of(seed, number))._asdict()}, crash_rows),
    "points": Campaign(40, lambda number, seed: {"points": points(number, 40, seed)._asdict()}, point_rows),
    "rule": Campaign(120, hostile_requests, rule_rows),
    "interrupts": Campaign(4, lambda number, seed: {"interrupts": interrupts(25, seed_of(seed, number))}, interrupt_rows),
    "extremes": Campaign(5, lambda number, seed: {"extremes": extremes(20_000, seed_of(seed, number))}, extreme_rows),
    "files": Campaign(50, lambda number, seed: {"files": files(2000, seed_of(seed, number))}, file_rows),
    "rows": Campaign(10, lambda number, seed: {"rows": rows(1000, seed_of(seed, number))}, changed_row_rows),
    "requests": Campaign(50, cost_slice, cost_rows),
    "damage": Campaign(40, lambda number, seed: damages(number, 40, seed), damage_rows),
}

PARTS: dict[str, Callable[[float, int], list[Row]]] = {
    "faults": show_faults,
    "hostile": show_hostile,
    "costs": show_costs,
    "threads": show_threads,
    "soak": show_soak,
    "windows": show_windows,
    "keyed": show_keyed,
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--campaign", type=float, default=0.05, help="size of everything; 1.0 is the full campaign")
    options.add_argument("--minutes", type=float, default=math.inf, help="after which no further slice of a campaign is begun")
    options.add_argument("--only", default=",".join([*CAMPAIGNS, *PARTS]), help="parts to run, by comma")
    options.add_argument("--seed", type=int, default=0)
    add_keep(options)
    given = options.parse_args()
    kept, names = Kept(given.keep), given.only.split(",")
    if {"faults", "crashes", "points"} & {*names} and not interpose():
        raise SystemExit("faults, crashes and points need Linux and a C compiler")
    if {"kills", "eventkills", "faults"} & {*names}:
        warm_up()
    chosen = {name: campaign for name, campaign in CAMPAIGNS.items() if name in names}
    progress = Progress(chosen, given.campaign, given.seed, kept)
    progress.measure(given.minutes)
    sections = []
    for name in chosen:
        if progress.n_done(name):  # What the page has stays where this run came to nothing.
            sections.append(section(name, *progress.section(name)))
    for name in (name for name in PARTS if name in names):
        part = f"{name}, size {given.campaign:g}, seed {given.seed}"
        rows = kept.part(part, partial(PARTS[name], given.campaign, given.seed))
        sections.append(section(name, rows, kept.code_of(part)))
    note = "Each part with the command that wrote it; `--campaign` multiplies its size, and the module says what it does."
    save("reliability", "\n\n".join(["# Reliability", note, *sections]), part=True)


def section(name: str, rows: list[Row], note: str) -> str:
    print(*rows, sep="\n", flush=True)
    return f"## {name}\n\n{table(('what', '1', '2', '3'), rows)}\n\n{note}"


def complain(crashes: list[str]) -> None:
    for crash in crashes[:20]:
        print("   ", crash)


def yes(value: bool) -> str:
    return "yes" if value else "NO"


if __name__ == "__main__":
    main()
