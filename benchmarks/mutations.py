"""Do the tests notice when the code is wrong? Mutations outside the kernels, and whether a test fails for each.

    python -m benchmarks.mutations [--only WORD ...] [--keep FILE [--again]]

Each mutation replaces one piece of one file, in a copy of the project, and runs the tests of its room until one fails. A
mutation whose text is no longer in its file is *stale*: it has to be written anew.
`--again` runs those once more that were not killed before.
"""

import hashlib
import importlib
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

from benchmarks._common import ROOT, parser, save, table
from benchmarks._kept import Kept, add_keep

#: Seconds after which the tests of a mutation are given up; one that hangs is noticed, too.
LIMIT = 600

#: What is slow to import, and not under test.
_SLOW = ("hypothesis", "numba", "river.drift", "river.metrics", "scipy.stats")


class Mutation(NamedTuple):
    """A piece of a file of `online_rank`, what takes its place, and the tests that should fail."""

    file: str
    old: str
    new: str
    tests: str


QUERY, FEEDBACK, METRICS = "tests/query", "tests/feedback tests/metrics/test_interleaving.py", "tests/metrics/test_metrics.py"
PERCEPTRON, SPARSE, SWAP = "tests/rankers/test_perceptron.py", "tests/rankers/test_sparse.py", "tests/rankers/test_swap.py"
PIPELINE, UNDO, MIXING = "tests/base/test_pipeline.py", "tests/base/test_interrupts.py", "tests/distributed/test_mixing.py"
NESTED = "tests/rankers/test_selection.py tests/rankers/test_drift.py"
STATE = "tests/storage/test_state.py"
COMMIT, REPLACED = "tests/serving/test_http.py::TestGroupCommit", "tests/serving/test_replaced.py"
ARGUMENTS = "tests/test_arguments.py online_rank/arguments.py"
FEEDBACK_OVER_HTTP = "tests/serving/test_feedback.py tests/serving/test_protocol.py"
LINEAR = f"{PERCEPTRON} {SPARSE}"
GROWING = "tests/rankers/test_growing.py"

#: Those that nothing noticed when the list began; each has a test of its own now.
SURVIVORS = [
    Mutation("rankers/averaged.py", "rounds > 400.0 * self.average", "False", LINEAR),
    Mutation("rankers/drift.py", "step.max_features = old.max_features", "pass", NESTED),
    Mutation(
        "rankers/nested.py",
        "if query.served is not None:\n            return query.served",
        "if False:\n            return query.served",
        f"tests/bounds/test_served_tracker.py {NESTED}",
    ),
    Mutation("rankers/selection.py", "1.0 - _ALPHA / (len(self._learners) - 1)", "1.0 - _ALPHA", NESTED),
    Mutation(
        "bounds/comparators.py",
        "max(row[2], np.linalg.norm(before), np.linalg.norm(after))",
        "max(row[2], np.linalg.norm(after))",
        "tests/bounds/test_kept.py",
    ),
    Mutation(
        "bounds/mixed.py",
        "np.maximum(tracker._path[:, 2], shard._path[:, 2])",
        "tracker._path[:, 2]",
        "tests/bounds/test_kept.py",
    ),
    Mutation(
        "rankers/kernel.py", "self.tolerance + _ROUNDING", "2.0 * self.tolerance + _ROUNDING", "tests/bounds/test_kept.py"
    ),
    Mutation(
        "rankers/averaged.py",
        "if self._averages:\n            self._average = self._weights.copy()\n\n    @property",
        "if self._averages:\n            self._average = self._weights\n\n    @property",
        "tests/rankers/test_beginnings.py",
    ),
    Mutation("serving/models.py", "model.is_idle and model.durable.is_saved:", "model.is_idle:", "tests/serving/test_http.py"),
]

#: All over the library, outside the kernels.
ANYWHERE = [
    Mutation("query/ungraded.py", "if kind is None or policies[kind] == 0:", "if kind is None:", QUERY),
    Mutation("query/ungraded.py", '"negative" if grade < 0', '"negative" if grade <= 0', QUERY),
    Mutation("query/ungraded.py", "or grade != grade", "", QUERY),
    Mutation("query/blocks.py", "self.offsets[first : stop + 1] - a", "self.offsets[first : stop + 1]", QUERY),
    Mutation("query/blocks.py", "self.w[first:stop]", "self.w[: stop - first]", QUERY),
    Mutation("query/blocks.py", "first[1:] > first[:-1]", "first[1:] != first[:-1]", QUERY),
    Mutation("query/blocks.py", 'side="right")) - 1, int(X.columns', 'side="left")) - 1, int(X.columns', QUERY),
    Mutation("query/served.py", "return [served[i] for i in ids]", "return [*served.values()]", QUERY),
    Mutation("query/served.py", "bad = np.flatnonzero(~np.isfinite(scores))", "bad = np.flatnonzero(np.isnan(scores))", QUERY),
    Mutation("query/sparse.py", "self.starts[start : stop + 1] - first", "self.starts[start : stop + 1]", QUERY),
    Mutation("query/sparse.py", "np.add.at(X, (np.repeat", "X.__setitem__((np.repeat", QUERY),
    Mutation("query/sparse.py", "starts[0] != 0 or ", "", QUERY),
    Mutation("query/sparse.py", "(starts[1:] < starts[:-1]).any()", "False", QUERY),
    Mutation("query/sparse.py", "<= columns.max() < rows.n_columns", "<= columns.max() <= rows.n_columns", QUERY),
    Mutation("query/grades.py", "(y < 0) | (y > MAX_GRADE)", "(y < 0)", QUERY),
    Mutation("query/grades.py", "(grades != np.floor(grades))", "False", QUERY),
    Mutation("query/runs.py", "key=lambda item: item[1], reverse=True)", "key=lambda item: item[1])", QUERY),
    Mutation("base/rounds.py", "skipped=bool(values.skipped)", "skipped=False", PERCEPTRON),
    Mutation(
        "base/columns.py",
        "columns.truncate(n)",
        "pass",
        "tests/base/test_names.py tests/base/test_pipeline.py tests/base/test_interrupts.py",
    ),
    Mutation("base/columns.py", "self._n_features + len(new) - self.max_features", "len(new) - self.max_features", GROWING),
    Mutation("base/columns.py", "known = target >= 0", "known = target > 0", SPARSE),
    Mutation("base/ranker.py", "keys = -scores\n", "keys = scores\n", f"{PERCEPTRON} {PIPELINE}"),
    Mutation("base/ranker.py", 'keys.argsort(kind="stable") if', "keys.argsort()[::1] if", f"{PERCEPTRON} {PIPELINE}"),
    Mutation("base/ranker.py", "self._n_shown += 1", "pass", SWAP),
    Mutation("base/ranker.py", "if isinstance(block.y, tuple) and not", "if False and not", f"{PERCEPTRON} {SWAP} {PIPELINE}"),
    Mutation(
        "metrics/base.py",
        "for w in weights:\n            if not (math.isfinite(w) and w >= 0):",
        "for w in weights:\n            if not w >= 0:",
        METRICS,
    ),
    Mutation("metrics/base.py", "self.n_skipped + sign *", "self.n_skipped +", METRICS),
    Mutation("metrics/base.py", "if weight and weight[0] < 0:", "if weight and weight[0] > 0 > 1:", METRICS),
    Mutation("metrics/base.py", "self._total[0] / self._weight[0]", "sum(self._total) / self.n_queries", METRICS),
    Mutation("metrics/base.py", "-math.inf for _ in missing", "0.0 for _ in missing", METRICS),
    Mutation("metrics/graded.py", "* 2.0**-max_grade", "* 2.0 ** -(max_grade + 1)", METRICS),
    Mutation(
        "metrics/interleaving.py",
        "if len(order) < length:\n                for",
        "if True:\n                for",
        "tests/metrics/test_interleaving.py",
    ),
    Mutation(
        "measures.py",
        "return 1.0 - self.value(scores, grades, ties)",
        "return 1.0 - self.value(scores, grades)",
        f"{METRICS} tests/rankers/test_drift.py",
    ),
    Mutation(
        "measures.py",
        "1.0 if np.isnan(value) else",
        "0.0 if np.isnan(value) else",
        f"{METRICS} online_rank/measures.py",
    ),
    Mutation(
        "intervals/losses.py",
        "(0.5 + total) / (n + 1.0)",
        "total / max(n, 1.0)",
        "tests/test_intervals.py online_rank/intervals",
    ),
    Mutation("feedback/impressions.py", "if len(set(drawn)) < len(drawn):", "if False:", FEEDBACK),
    Mutation("feedback/policies.py", "rest if n < len(scores) else None", "rest", f"{FEEDBACK} {SWAP}"),
    Mutation("feedback/policies.py", "first = int(rng.integers(2))", "first = 0", FEEDBACK),
    Mutation("feedback/position_bias.py", "all_wins[self._n_updates % _N_GROUPS]", "all_wins[0]", FEEDBACK),
    Mutation("feedback/position_bias.py", "(_N_GROUPS - 1) * without.var(axis=0)", "without.var(axis=0)", FEEDBACK),
    Mutation(
        "rankers/averaged.py",
        "weights += share * learned",
        "weights += learned / len(shards)",
        MIXING,
    ),
    Mutation(
        "rankers/averaged.py",
        "counters += shard._counters - base._counters",
        "counters += shard._counters",
        MIXING,
    ),
    Mutation("rankers/averaged.py", "grown[:n] = rows[:n]", "pass", GROWING),
    Mutation("rankers/averaged.py", "rows[n : n + n_new] = 0.0", "pass", GROWING),
    Mutation("rankers/drift.py", "worse = recent > mean", "worse = True", NESTED),
    Mutation("rankers/drift.py", "min(n, _RECENT)", "n", NESTED),
    Mutation(
        "rankers/drift.py", "self._background = None\n            self._n_queries", "pass\n            self._n_queries", NESTED
    ),
    Mutation("rankers/adapters.py", "y[better] > y[worse]", "y[better] < y[worse]", "tests/rankers/test_adapters.py"),
    Mutation("rankers/selection.py", "others[self._n_shown % len(others)]", "others[0]", NESTED),
    Mutation(
        "preprocessing/stream_scaler.py",
        "shard._count_before != base._count",
        "False",
        f"tests/preprocessing/test_preprocessing.py {MIXING}",
    ),
    Mutation(
        "preprocessing/stream_scaler.py",
        "self._count += n",
        "self._count = n",
        f"tests/preprocessing/test_preprocessing.py {MIXING}",
    ),
    Mutation("preprocessing/max_abs.py", "grown[:n] = self._largest[:n]", "pass", GROWING),
    Mutation("preprocessing/runs.py", "_GRID / (k + places)", "_GRID / (1.0 + k + places)", "tests/preprocessing/test_runs.py"),
    Mutation("distributed/mixing.py", "step._meet_features_of(shards)", "pass", MIXING),
    Mutation("distributed/mixing.py", "- _mass(base)", "", MIXING),
    Mutation(
        "evaluate/trace.py", "self.loss += round_.loss * round_.weight", "self.loss += round_.loss", "tests/test_evaluate.py"
    ),
    Mutation("evaluate/trace.py", "self._spacing *= 2", "pass", "tests/test_evaluate.py"),
    Mutation("stream/synth.py", "np.clip(y + noise, 0, self.n_grades - 1)", "np.abs(y + noise)", "tests/stream/test_synth.py"),
    Mutation("stream/trec.py", "max(int(grade), 0)", "int(grade)", "tests/stream/test_trec.py"),
    Mutation("surrogates/builtin.py", "return 2.0 * self._slope * total", "return 2.0 * total", "tests/test_surrogates.py"),
    # Arguments, models, changes that are undone.
    Mutation("arguments.py", "type(value) is type(known_value) and value == known_value", "value == known_value", ARGUMENTS),
    Mutation("arguments.py", "value > above)", "value >= above)", ARGUMENTS),
    Mutation("base/undo.py", "        row[0, -1] = np.nan\n", "", UNDO),
    Mutation("base/undo.py", "for undo in reversed(self._undo):", "for undo in self._undo[:1]:", UNDO),
    Mutation(
        "base/pipeline.py",
        "takes_sparse=all(step",
        "takes_sparse=any(step",
        "tests/base/test_anatomy.py online_rank/base/anatomy.py",
    ),
    Mutation(
        "base/pipeline.py",
        "learns=any(step.learns",
        "learns=all(step.learns",
        f"tests/base/test_anatomy.py {PIPELINE} tests/rankers/test_nested_pipelines.py",
    ),
    Mutation(
        "rankers/averaged.py",
        "            self._counters[0] = 0.0\n",
        "",
        f"tests/rankers/test_drift.py {PERCEPTRON} tests/bounds/test_served_tracker.py",
    ),
    # Certificates and intervals.
    Mutation(
        "bounds/certificate.py",
        'return "holds" if tolerance <= _NEGLIGIBLE * loss else "undecided by rounding"',
        'return "holds"',
        "tests/bounds/test_certificate.py",
    ),
    Mutation(
        "bounds/certificate.py",
        ' and all(check.verdict != "VIOLATED" for check in self.bounds)',
        "",
        "tests/bounds/test_certificate.py tests/bounds/test_defects.py",
    ),
    Mutation("intervals/losses.py", "(x >= 0.0) & (x <= 1.0)", "x <= 1.0", "tests/test_intervals.py"),
    # Fusion.
    Mutation("preprocessing/runs.py", "0.5 * (above + 1 + at_least)", "at_least", "tests/preprocessing/test_runs.py"),
    Mutation(
        "preprocessing/runs.py",
        "round(floor * _GRID) / _GRID",
        "0.0",
        "tests/preprocessing/test_runs.py tests/export/test_fusion.py",
    ),
    Mutation("export/fusion.py", "scores - share @ scores", "scores", "tests/export/test_fusion.py"),
    Mutation(
        "export/fusion.py", "if engine.whole_k and own.k != _k_of(engine, own.k):", "if False:", "tests/export/test_fusion.py"
    ),
    # Logs.
    Mutation(
        "stream/impressions.py",
        "for row in sorted(rows, key=lambda row: str(row.document)):",
        "for row in rows:",
        "tests/stream/test_impressions_table.py",
    ),
    Mutation(
        "stream/impressions.py", "order.notice(current, times[i], frame, i)", "pass", "tests/stream/test_impressions_table.py"
    ),
    Mutation(
        "evaluate/run.py", "or settings_of(saved.get(name)) != settings_of(given)", "", "tests/storage/test_checkpoint.py"
    ),
    # The service.
    Mutation("serving/gathering.py", "kinds[kind][1] <= at:", "kinds[kind][1] < at:", FEEDBACK_OVER_HTTP),
    Mutation("serving/gathering.py", "at > end or self.now >= end", "at > end", FEEDBACK_OVER_HTTP),
    Mutation("serving/gathering.py", "            if end > at:\n", "            if False:\n", FEEDBACK_OVER_HTTP),
    Mutation("serving/pending.py", "n_bytes - (before[1] if before else 0)", "n_bytes", FEEDBACK_OVER_HTTP),
    Mutation(
        "serving/pending.py",
        "            if query_id in self._given:\n                # What",
        "            if False:\n                # What",
        FEEDBACK_OVER_HTTP,
    ),
    Mutation("serving/learning.py", "if before in (0, digest)", "if True", FEEDBACK_OVER_HTTP),
    Mutation(
        "serving/learning.py",
        "changes.undo_by(functools.partial(vars(self._metric).update, {**vars(self._metric)}))",
        "pass",
        "tests/serving/test_protocol.py tests/serving/test_rule.py",
    ),
    Mutation(
        "serving/learning.py",
        "changes.undo_by(functools.partial(vars(challenge).update, before))",
        "pass",
        "tests/serving/test_challenge.py tests/serving/test_rule.py",
    ),
    Mutation(
        "serving/learning.py",
        'scores = as_served(query.ids, answered["ranking"])',
        "pass",
        "tests/serving/test_clicks.py tests/serving/test_protocol.py tests/serving/test_challenge.py",
    ),
    Mutation(
        "serving/protocol.py",
        "drawing.undo_by(functools.partial(vars(ranker).update, before))",
        "pass",
        "tests/serving/test_clicks.py tests/serving/test_protocol.py tests/serving/test_rule.py",
    ),
    Mutation(
        "serving/service_state.py",
        "if target != self._target:",
        "if False:",
        "tests/serving/test_identity.py tests/serving/test_protocol.py tests/serving/test_replaced.py",
    ),
    Mutation(
        "serving/requests.py",
        "sort_keys=True",
        "sort_keys=False",
        "online_rank/serving/requests.py tests/serving/test_protocol.py",
    ),
]

#: Storage and durable services: acknowledged before it was synced, names not synced, modes, digests not compared.
STORAGE = [
    Mutation(
        "storage/state.py",
        "transaction(wait, n_bytes)",
        "transaction(False, n_bytes)",
        f"{STATE}::test_nothing_is_counted_as_acknowledged_before_it_was_synced",
    ),
    Mutation(
        "storage/database.py",
        "'FULL' if wait else",
        "'NORMAL' if wait else",
        f"{STATE}::test_nothing_is_counted_as_acknowledged_before_it_was_synced",
    ),
    Mutation(
        "serving/commit.py",
        "        try:\n            if outcomes or waiting:",
        "        _settle(waiting)\n        try:\n            if outcomes or waiting:",
        COMMIT,
    ),
    Mutation("serving/commit.py", "outcomes, bool(waiting))", "outcomes, False)", COMMIT),
    Mutation(
        "serving/served.py", "self._watch(reply, before)\n                await on_disk", "self._watch(reply, before)", COMMIT
    ),
    Mutation(
        "serving/durable.py",
        "self._saved_at = store.saved.start",
        "pass",
        f"{STATE}::test_a_service_that_is_killed_again_and_again_writes_checkpoints_all_the_same",
    ),
    Mutation("serving/protocol.py", "self.exchange_model(from_bytes(feedback), feedback)", "self.n_changes += 1", REPLACED),
    Mutation("serving/served.py", "on_disk = commits.add_and_wait(outcome)", "on_disk = commits.wait()", REPLACED),
    Mutation(
        "storage/folder.py",
        "sync_directory(self.path.absolute().parent)",
        "pass",
        f"{STATE}::test_the_folder_and_the_one_around_it_are_synced",
    ),
    Mutation(
        "storage/checkpoint.py",
        "            sync_directory(self.path)\n",
        "",
        f"{STATE}::test_the_folder_and_the_one_around_it_are_synced",
    ),
    Mutation(
        "storage/state.py",
        "            sync_directory(self.path)\n",
        "",
        f"{STATE}::test_the_folder_and_the_one_around_it_are_synced",
    ),
    Mutation(
        "storage/database.py",
        "            sync_directory(self._log.parent)\n",
        "",
        f"{STATE}::test_the_log_is_written_anew_before_it_is_believed",
    ),
    Mutation(
        "storage/database.py",
        "        self._write_log_anew()\n",
        "",
        f"{STATE}::test_the_log_is_written_anew_before_it_is_believed",
    ),
    Mutation("storage/folder.py", "mode=0o700", "mode=0o755", f"{STATE}::test_the_state_of_a_service_is_for_its_owner_alone"),
    Mutation(
        "storage/folder.py",
        "os.O_NOFOLLOW, 0o600",
        "os.O_NOFOLLOW, 0o700",
        f"{STATE}::test_the_state_of_a_service_is_for_its_owner_alone",
    ),
    Mutation("storage/folder.py", "flags | os.O_NOFOLLOW", "flags", f"{STATE}::test_links_are_not_followed"),
    Mutation(
        "storage/checkpoint.py",
        "if digest != _sealed(change, notes, manifest):",
        "if False:",
        f"{STATE}::test_a_row_whose_digest_does_not_match_is_noticed",
    ),
    Mutation(
        "storage/generations.py",
        "or digest_of(piece) != name",
        "",
        f"{STATE}::test_each_piece_is_compared_with_its_digest",
    ),
    Mutation("storage/saved.py", "and digest == self.chain", "", f"{STATE}::test_a_row_whose_digest_does_not_match_is_noticed"),
    Mutation(
        "storage/saved.py",
        "digest == digest_of_id(change, query_id)",
        "True",
        f"{STATE}::test_a_row_whose_digest_does_not_match_is_noticed",
    ),
    Mutation(
        "storage/saved.py",
        "and digest == digest_of_query(number, content)",
        "",
        f"{STATE}::test_a_row_whose_digest_does_not_match_is_noticed",
    ),
    Mutation(
        "storage/state.py",
        "and row[1] == digest_of_query(number, row[0])",
        "",
        f"{STATE}::test_a_query_that_was_damaged_meanwhile_is_not_learned",
    ),
    Mutation(
        "storage/checkpoint.py",
        "            _value_of(row, self._database)\n",
        "            pass\n",
        f"{STATE}::test_a_state_that_cannot_be_read_back_does_not_replace_the_one_before",
    ),
    Mutation("storage/state.py", "missing <= 0", "True", f"{STATE}::test_an_older_database_is_noticed"),
    Mutation(
        "storage/state.py",
        "        self._place = _other(self._place)\n",
        "",
        f"{STATE}::test_a_count_that_is_cut_short_leaves_the_one_before",
    ),
]

PARTS = {
    "Anywhere outside the kernels": ANYWHERE,
    "Those that once survived": SURVIVORS,
    "Storage and durable services": STORAGE,
}


def noticed(mutation: Mutation, project: Path) -> str:
    """Whether the tests notice a mutation: "killed", "SURVIVED" or "stale". The test that fails passes without it."""
    path = project / "online_rank" / mutation.file
    text = path.read_text() if path.exists() else ""
    if text.count(mutation.old) != 1:
        return "stale"
    path.write_text(text.replace(mutation.old, mutation.new))
    try:
        code, printed = _tested(mutation.tests.split(), project)
    finally:
        path.write_text(text)
    if code != 1:
        return {None: "killed", 0: "SURVIVED"}.get(code, f"stale (pytest: {code})")
    failed = re.findall(r"(?m)^(?:FAILED|ERROR) ((?:tests|online_rank)/.+?)(?: - .*)?$", printed)
    return "killed" if _tested(failed, project)[0] == 0 else "stale (its tests fail anyway)"


def _tested(tests: list[str], project: Path) -> tuple[int | None, str]:
    """Run tests in a copy of the project until one fails: pytest's exit status, None after `LIMIT`, and what was printed.

    They run in a fork of this process, which has imported `_SLOW`.
    """
    with tempfile.TemporaryFile("w+") as output:
        child = os.fork()
        if child == 0:
            _run(tests, project, output.fileno())
        until = time.monotonic() + LIMIT
        while not (ended := os.waitpid(child, os.WNOHANG))[0]:
            if time.monotonic() > until:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return None, ""
            time.sleep(0.05)
        output.seek(0)
        return os.waitstatus_to_exitcode(ended[1]), output.read()


def _run(tests: list[str], project: Path, output: int) -> NoReturn:
    """In a child: run tests, and end."""
    code = 4
    try:
        os.setsid()
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(project)
        os.environ |= {"PYTHONPATH": str(project), "COLUMNS": "1000", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        sys.path.insert(0, str(project))
        for name in [name for name in sys.modules if name.partition(".")[0] == "benchmarks"]:
            del sys.modules[name]
        code = pytest.main(["-q", "-x", "-p", "no:cacheprovider", *tests])
    finally:
        sys.stdout.flush()
        os._exit(code)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--only", nargs="+", default=[""], help="parts of file names")
    arguments.add_argument("--again", action="store_true", help="run those that FILE has as survived or stale once more")
    add_keep(arguments)
    options = arguments.parse_args()
    kept = Kept(options.keep)
    for name in _SLOW:
        importlib.import_module(name)
    sections, wanted = [], 0
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        shutil.copytree(ROOT, project, ignore=shutil.ignore_patterns(".git", ".venv", "results"))
        (project / "benchmarks" / "results").symlink_to(ROOT / "benchmarks" / "results")
        for title, mutations in PARTS.items():
            chosen = [each for each in mutations if any(word in each.file for word in options.only)]
            wanted += len(chosen)
            if chosen:
                sections.append(_section(title, [(each, _found(each, kept, project, options.again)) for each in chosen]))
    save("mutations", "\n\n".join(["# Mutations", *sections, kept.code]), part=wanted < sum(map(len, PARTS.values())))


def _found(mutation: Mutation, kept: Kept, project: Path, again: bool) -> str:
    """Whether the tests notice a mutation, now or in an earlier run."""
    name = digest_of(mutation)
    if again and name in kept and kept.part(name, str) != "killed":
        kept.forget(name)
    found: str = kept.part(name, lambda: noticed(mutation, project))
    print(mutation.file, _line(mutation.old), found, sep=" | ", file=sys.stderr, flush=True)
    return found


def digest_of(mutation: Mutation) -> str:
    """The name of a mutation in a file of what is kept."""
    return hashlib.sha256("\0".join(mutation[:3]).encode()).hexdigest()[:16]


def _section(title: str, found: list[tuple[Mutation, str]]) -> str:
    killed = sum(outcome == "killed" for _, outcome in found)
    rows = [(f"`{each.file}`", *(f"`{_line(text)}`".replace("|", "\\|") for text in each[1:3]), out) for each, out in found]
    shown = table(("file", "instead of", "there stands", "tests"), rows)
    return f"## {title}\n\n{killed} of {len(found)} are killed.\n\n{shown}"


def _line(text: str) -> str:
    return " ".join(text.split()) or " "


if __name__ == "__main__":
    main()
