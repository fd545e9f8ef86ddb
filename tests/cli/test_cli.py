import gzip
import io
import json
import os
import pty
import random
import re
import select
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import online_rank
from online_rank import AdditiveRanker, History, load, rank_one, read
from online_rank._kernels.ahead.loading import in_use
from online_rank.base import ranker_of, steps_of
from online_rank.cli import serve
from online_rank.cli.options import Service
from online_rank.cli.positions import how_it_serves
from online_rank.cli.service import maker
from online_rank.cli.settings import SHUFFLE_BUFFER, shuffled
from online_rank.evaluate import progressive
from online_rank.metrics import metric
from online_rank.serving import RankingService
from online_rank.serving.challenge import from_today

ROOT = Path(online_rank.__file__).resolve().parents[1]


def letor(seed, n=40):
    rng = np.random.default_rng(seed)
    lines = []
    for q in range(n):
        X = rng.normal(size=(6, 3)) * [1.0, 10.0, 0.1] + [5.0, 0.0, 0.0]
        y = np.digitize(X @ [1.0, 0.1, -3.0] + rng.normal(size=6), [5.0, 6.5])
        lines += [
            f"{y[i]} qid:{seed}{q:03} " + " ".join(f"{j + 1}:{X[i, j]:.6f}" for j in range(3)) + f" #docid = D{q}-{i}"
            for i in range(6)
        ]
    return "\n".join(lines) + "\n"


@pytest.fixture
def files(tmp_path):
    for name, seed in (("a", 1), ("b", 2), ("test", 3)):
        (tmp_path / f"{name}.txt").write_text(letor(seed))
    return tmp_path


def command(*arguments, **options):
    return [sys.executable, "-m", "online_rank", *map(str, arguments)], {"cwd": ROOT, **options}


def without_compiling(err):
    """What stands on stderr but the lines that say that kernels are being compiled."""
    return b"".join(line for line in err.splitlines(True) if b"compiling, once" not in line)


def test_train_reports_what_the_library_computes(files, run):
    code, out, err = run(
        "train", files / "a.txt", files / "b.txt", "--test", files / "test.txt", "--save", files / "m.npz", "--json"
    )
    assert (code, err) == (0, "")
    report = json.loads(out)
    model = AdditiveRanker("ndcg@10")
    trace = progressive(read([files / "a.txt", files / "b.txt"]), model, "ndcg@10")
    held_out = metric("ndcg@10")
    for X, y in read(files / "test.txt"):
        held_out.update(y, model.predict_one(X))
    assert report["passes"][0]["metrics"].items() >= trace.values.items()
    assert 0.0 < report["passes"][0]["metrics"]["random ranking"] < trace.values["ndcg@10"]
    assert report["passes"][0]["loss"] == trace.loss
    assert report["test"]["metrics"] == {"ndcg@10": held_out.get()}
    assert (report["features"], report["test"]["queries"], report["saved"]) == (3, 40, str(files / "m.npz"))
    X, _ = next(read(files / "test.txt"))
    assert load(files / "m.npz").predict_one(X) == model.predict_one(X)


def test_train_for_people(files, run):
    code, out, err = run("train", files / "a.txt", "--test", files / "test.txt", "--save", files / "m.npz", "--passes", "2")
    assert (code, err) == (0, "")
    assert "40 queries, 240 documents, 3 features" in out
    assert "held out" in out
    assert "pass 2: updated on" in out
    assert "saved to" in out
    assert "\x1b" not in out
    assert all(len(line) <= 80 for line in out.splitlines() if "saved" not in line)


def test_quiet_prints_nothing(files, run):
    assert run("train", files / "a.txt", "-q") == (0, "", "")


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ((), ["AdditiveRanker"]),
        (("--ranker", "additive"), ["AdditiveRanker"]),
        (("--ranker", "perceptron"), ["StreamScaler", "PerceptronRanker"]),
    ],
)
def test_train_makes_the_model_that_ranker_names(files, run, options, steps):
    assert run("train", files / "a.txt", "-q", "--save", files / "m.npz", *options)[0] == 0
    assert [type(step).__name__ for step in steps_of(load(files / "m.npz"))] == steps


def test_passes_are_learned_one_after_the_other(files, run):
    assert run("train", files / "a.txt", "-q", "--save", files / "m.npz", "--passes", 2)[0] == 0
    model = AdditiveRanker()
    for _ in range(2):
        for X, y in read(files / "a.txt"):
            model.learn_one(X, y)
    X = next(iter(read(files / "a.txt")))[0]
    assert load(files / "m.npz").predict_one(X) == model.predict_one(X)


def test_a_seed_shuffles_and_is_repeatable(files, run):
    def saved(*options):
        assert run("train", files / "a.txt", "-q", "--save", files / "m.npz", *options)[0] == 0
        return (files / "m.npz").read_bytes()

    assert saved("--shuffle", 1) == saved("--shuffle", 1)
    assert len({saved(), saved("--shuffle", 1), saved("--shuffle", 2)}) == 3


def test_a_shuffle_of_more_queries_than_its_buffer_holds_loses_none():
    order = list(shuffled(range(3 * SHUFFLE_BUFFER), random.Random(0)))
    assert sorted(order) == list(range(3 * SHUFFLE_BUFFER))
    assert np.corrcoef(order[:SHUFFLE_BUFFER], np.arange(SHUFFLE_BUFFER))[0, 1] < 0.5


def test_rank_writes_a_trec_run_in_the_order_of_the_model(files, run):
    run("train", files / "a.txt", "-q", "--save", files / "m.npz")
    code, out, err = run("rank", files / "m.npz", files / "test.txt")
    assert (code, err) == (0, "")
    lines = [line.split(" ") for line in out.splitlines()]
    assert all(len(line) == 6 and line[1] == "Q0" and line[5] == "online_rank" for line in lines)
    model = load(files / "m.npz")
    for t, (X, _, qid, docids) in enumerate(read(files / "test.txt", with_ids=True)):
        part = lines[6 * t : 6 * t + 6]
        scores, order = model.predict_one(X), rank_one(model, X)
        assert [line[0] for line in part] == [qid] * 6
        assert [line[2] for line in part] == [docids[i] for i in order]
        assert [line[3] for line in part] == ["1", "2", "3", "4", "5", "6"]
        assert [float(line[4]) for line in part] == [scores[i] for i in order]


def test_documents_without_an_id_are_counted(files, run):
    run("train", files / "a.txt", "-q", "--save", files / "m.npz")
    (files / "bare.txt").write_text("1 qid:7 1:1\n0 qid:7 1:2\n")
    _, out, _ = run("rank", files / "m.npz", files / "bare.txt")
    assert sorted(line.split()[2] for line in out.splitlines()) == ["1", "2"]


def test_evaluate(files, run):
    run("train", files / "a.txt", "-q", "--save", files / "m.npz")
    code, out, _ = run("evaluate", files / "m.npz", files / "test.txt", "--json", "--metric", "map", "--metric", "ndcg@3")
    model, map_, ndcg = load(files / "m.npz"), metric("map"), metric("ndcg@3")
    for X, y in read(files / "test.txt"):
        map_.update(y, model.predict_one(X))
        ndcg.update(y, model.predict_one(X))
    assert code == 0
    assert json.loads(out)["metrics"] == {"map": map_.get(), "ndcg@3": ndcg.get()}
    code, out, _ = run("evaluate", files / "m.npz", files / "test.txt")
    assert code == 0
    assert "40 queries" in out
    assert f"{metric('mrr').name.lower()}" in out


def test_a_saved_model_may_have_any_name(files, run):
    for name in ("m.txt", "m.json"):
        assert run("train", str(files / "a.txt"), "--save", str(files / name))[0] == 0
        assert run("rank", str(files / name), str(files / "a.txt"))[::2] == (0, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "no.txt"], "no.txt: No such file or directory"),
        (["train", "{a}", "--test", "no.txt"], "no.txt: No such file or directory"),
        (["train"], "Missing argument 'FILE'"),
        (["train", "{a}", "--measure", "ndgc"], "measure 'ndgc' is unknown"),
        (["train", "{a}", "--ranker", "max"], "'max' is not one of"),
        (["train", "{a}", "--passes", "0"], "--passes"),
        (["train", "-", "--passes", "2"], "standard input (-) can be read once"),
        (["train", "-", "--test", "-"], "more than once"),
        (["train", "{a}", "--save", "no/m.npz"], "there is no directory"),
        (["stream", "--save", "no/m.npz"], "there is no directory"),
        (["export", "no.npz", "--to", "c", "--out", "no/m.c"], "--out no/m.c: there is no directory"),
        (["fuse", "{a}", "--qrels", "{a}", "--out", "no/run"], "--out no/run: there is no directory"),
        (["train", "{a}", "--save", "postgresql://u:secret@h/d"], "--save is the address of a database"),
        (["train", "{a}", "--checkpoint", "postgresql://u:secret@h/d"], "--checkpoint is the address of a database"),
        (["stream", "--save", "postgresql://u:secret@h/d"], "--save is the address of a database"),
        (
            ["export", "{a}", "--to", "solr", "--features-out", "postgresql://u:secret@h/d"],
            "--features-out is the address of a database",
        ),
        (["train", "{a}", "--save", ""], "a file or folder is needed here"),
        (["fuse", "{a}", "--qrels", "{a}", "--out", "{dir}"], "not a regular file"),
        (["export", "no.npz", "--to", "c", "--out", os.devnull], "/dev/null: not a regular file"),
        (["train", "{a}", "--save", os.devnull], "/dev/null: not a regular file"),
        (["stream", "--save", os.devnull], "/dev/null: not a regular file"),
        (["train", "{bad}"], "bad.txt, line 2"),
        (["train", "{dir}"], "Is a directory"),
        (["evaluate", "{a}", "{a}"], "a.txt: not a model file: line 1: the text of a LightGBM model begins with tree"),
        (["evaluate", "{copy}", "{a}"], "copy: not a model file"),
        (["evaluate", "no.npz", "{a}"], "no.npz: No such file or directory"),
        (["rank", "{metric}", "{a}"], "holds a MAP, not a model that ranks"),
        (["trian"], "No such command"),
        (["demo", "--queries", "1"], "No such option: --queries"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(files, run, arguments, message):
    (files / "bad.txt").write_text("1 qid:1 1:1\n1 qid:1 1:x\n")
    (files / "copy").write_bytes((files / "a.txt").read_bytes())
    online_rank.save(metric("map"), files / "metric.npz")
    names = {"a": "a.txt", "bad": "bad.txt", "copy": "copy", "metric": "metric.npz", "dir": ""}
    places = {key: files / name for key, name in names.items()}
    code, out, err = run(*(argument.format(**places) for argument in arguments))
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("online-rank: ")
    assert "secret" not in err
    assert err.count("\n") == 1


def test_a_missing_extra_says_what_to_install(monkeypatch, run):
    for name in [name for name in sys.modules if name.startswith("online_rank.cli.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "typer", None)
    code, _, err = run("demo")
    assert code == 2
    assert err == 'online-rank: the command needs typer: pip install "online_rank[cli]"\n'


def test_help_and_version(run):
    code, output, errors = run("--version")
    assert (code, errors) == (0, "")
    assert output.splitlines() == [f"online-rank {online_rank.__version__}", f"kernels: {in_use()}"]
    assert all(name in run()[1] for name in ("demo", "train", "rank", "evaluate"))
    assert "--measure" in run("train", "--help")[1]


@pytest.mark.slow
def test_gzip_through_stdin_learns_what_the_file_teaches(files, run):
    arguments, options = command("train", "-", "--json")
    piped = subprocess.run(arguments, **options, input=gzip.compress(letor(1).encode()), capture_output=True, timeout=120)
    read = run("train", files / "a.txt", "--json")[1]
    of_pipe, of_file = json.loads(piped.stdout)["passes"][0], json.loads(read)["passes"][0]
    of_pipe.pop("elapsed"), of_file.pop("elapsed")
    assert of_pipe == of_file
    assert without_compiling(piped.stderr) == b""


@pytest.mark.slow
def test_a_closed_pipe_is_no_traceback(files, run):
    run("train", files / "a.txt", "-q", "--save", files / "m.npz")
    (files / "long.txt").write_text("".join(letor(seed, 200) for seed in range(20)))
    arguments, options = command("rank", files / "m.npz", files / "long.txt")
    with subprocess.Popen(arguments, **options, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(10)
        process.stdout.close()
        assert without_compiling(process.stderr.read()) == b""
        assert process.wait(60) == 141


def test_a_closed_standard_output_is_one_line(files, tmp_path):
    arguments, options = command("stream", "--checkpoint", tmp_path / "run")
    closed = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *arguments], **options, stderr=subprocess.PIPE, timeout=60)
    assert (closed.returncode, closed.stderr) == (2, b"online-rank: standard output is closed\n")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_an_interrupt_is_exit_code_130(files):
    arguments, options = command("train", "-", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with subprocess.Popen(arguments, **options, stdin=subprocess.PIPE) as process:
        process.stdin.write(letor(1, 1000).encode() * 3)  # more than a pipe holds: when this returns, it is being read
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert b"Traceback" not in err


@pytest.mark.slow
def test_an_interrupt_waits_for_an_import_and_is_not_lost_in_it(tmp_path):
    # An import hook of Python that is interrupted loses the interrupt, as this module does; half a module fails later.
    (tmp_path / "slow.py").write_text(
        "import contextlib, time\nprint('importing', flush=True)\n"
        "with contextlib.suppress(KeyboardInterrupt):\n    time.sleep(0.5)\n    print('imported', flush=True)\n"
    )
    arguments, options = command("--import", "slow", "demo", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    with subprocess.Popen(arguments, **options, env={**os.environ, "PYTHONPATH": path}) as process:
        assert process.stdout.readline() == b"importing\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out.splitlines()[:1]) == (130, [b"imported"])
    assert b"Traceback" not in err


CALLBACKS = {
    "a callback from C": "import ctypes; ctypes.CFUNCTYPE(None)(interrupted)()",
    "a finalizer": "type('Resource', (), {'__del__': interrupted})()",
    "a weak reference": "import weakref; made = type('Resource', (), {})(); ref = weakref.ref(made, interrupted); del made",
}


@pytest.mark.parametrize("callback", CALLBACKS)
def test_an_interrupt_in_a_callback_is_not_lost(callback):
    """Python prints exceptions of such callbacks and continues; numba has many of them while it compiles."""
    code = f"""
import signal, threading, time
from online_rank import cli

# The next attempt comes while this one is still being made, as on a busy machine.
class Slow(threading.Timer):
    def start(self):
        super().start()
        threading.Timer = timer
        time.sleep(0.2)

timer, threading.Timer = threading.Timer, Slow

def interrupted(*_):
    signal.raise_signal(signal.SIGINT)

def run(arguments):
    {CALLBACKS[callback]}
    time.sleep(100.0)
    return 0

cli._run = run
cli.main([])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, b"")


def test_an_interrupt_while_the_process_ends_changes_no_exit_code():
    code = """
import signal, sys
from online_rank import cli

leave = sys.exit
cli._run = lambda _: 3
sys.exit = lambda code: (signal.raise_signal(signal.SIGINT), leave(code))
cli.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (3, b"")


def test_other_errors_of_callbacks_are_printed():
    code = "from online_rank import cli; cli._run = lambda _: ctypes.CFUNCTYPE(None)(lambda: 1 / 0)() or 0; cli.main([])"
    done = subprocess.run([sys.executable, "-c", f"import ctypes; {code}"], capture_output=True, timeout=60)
    assert (done.returncode, b"ZeroDivisionError" in done.stderr) == (0, True)


def test_demo_in_a_pipe(run, monkeypatch):
    monkeypatch.setattr("online_rank.cli.demo.QUERIES", 240)
    code, out, err = run("demo")
    assert (code, err) == (0, "")
    assert "the truth changes" in out
    assert "ndcg@10 lately" in out
    assert "true grade" in out
    assert "\x1b" not in out
    assert 15 < out.count("\n") < 40


def test_an_option_means_the_same_in_every_command():
    import typer.main

    from online_rank.cli.app import app

    kinds = {}
    for command in typer.main.get_command(app).commands.values():
        for option in command.params:
            # Not all rankers can be served.
            if option.param_type_name == "option" and option.name != "ranker":
                kind = (tuple(option.opts), option.metavar, option.is_flag)
                kinds.setdefault(option.name, set()).add(kind)
    assert len(kinds) > 60
    assert {name: found for name, found in kinds.items() if len(found) > 1} == {}


@pytest.mark.parametrize("verb", ["stream", "serve"])
def test_the_ranker_of_a_new_model_is_refused_together_with_a_model(files, run, verb):
    code, _, err = run(verb, files / "model.npz", "--ranker", "swap")
    assert code == 2
    assert "--ranker is for a new model" in err


@pytest.mark.parametrize(
    ("beginning", "expected"),
    [
        ({}, "AdditiveRanker"),
        ({"ranker": "swap"}, "StreamQuantileMap | SwapRanker"),
        ({"ranker": "perceptron"}, "StreamScaler | PerceptronRanker"),
    ],
)
def test_what_a_service_begins_with(beginning, expected):
    given = {"measure": "ap", "wait": "2h", "wait_bytes": 9000}
    make = maker(Service(**{**given, **beginning}))
    service, other = make(), make()
    assert " | ".join(type(step).__name__ for step in steps_of(service.model)) == expected
    assert service.model is not other.model
    assert (service.measure, service.wait, service.wait_bytes) == ("ap", 7200.0, 9000)


@pytest.mark.parametrize("field", ["score", "-score"])
def test_a_service_begins_with_the_ranking_of_today(files, field):
    service = maker(Service(checkpoint="x"), field, 0.95)()
    docs = {"a": {"score": 1.0}, "b": {"score": 2.0}, "c": {"score": 3.0}}
    assert service.model.rank_one(docs) == [*("abc" if field[0] == "-" else "cba")]
    assert " | ".join(type(step).__name__ for step in steps_of(service.challenge.model)) == "ClickCurves"
    assert ranker_of(service.challenge.model).today == {"score": -1.0 if field[0] == "-" else 1.0}
    assert (service.keep, service.challenge.promote_at) == (0.95, 0.95)
    (line,) = how_it_serves(service.model, service.challenge, [])
    assert line.startswith(
        "draws the lists to show around the ranking of today; with votes on 9.5% of them, users see at least 95.0%"
    )
    assert line.endswith("the model takes over when it is better; learns from clicks on what it shows")
    line, *_ = how_it_serves(*from_today({"score": 1.0}, AdditiveRanker()), [])
    assert line.endswith("learns nothing: clicks are votes, and the model of the file stays as it is")


def test_a_start_says_nothing_of_the_query_that_warms_it_up():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        serve._warm(RankingService(History("user") | AdditiveRanker()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--from-today", "x", "--challenger", "m"), "--from-today has a challenger"),
        (("--keep", ".9"), "--keep needs --from-today"),
        (("--from-today", "x", "--keep", "1.5"), "keep is 1.5"),
        (("--from-today", "x", "--ranker", "additive"), "leave out --ranker"),
        (("--from-today", "-"), "--from-today is '-'"),
        (("--key", "shop", "--checkpoint", "postgresql:///shop"), "--key needs a folder as --checkpoint"),
    ],
)
def test_options_of_today(files, run, options, message):
    code, _, err = run("serve", *options)
    assert code in (1, 2)
    assert message in err


def test_a_server_that_gets_no_threads_says_what_to_do_before_it_listens(run, monkeypatch):
    """With little memory (ulimit -v) it printed tracebacks, and listened without a thread that writes."""

    def no_threads(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(serve.ThreadPoolExecutor, "submit", no_threads)
    code, _, err = run("serve", "--port", "0", "--ranker", "perceptron")
    assert code == 2
    assert "no further thread can be started: give this process more memory (ulimit -v) or more threads" in err
    assert "listening" not in err


#: The command on a terminal, with bars that appear at once, however fast it is.
IMPATIENT = "from online_rank import cli; from online_rank.support import progress; progress._PATIENCE = 0.0; cli.main()"
#: A short demo.
SHORT = "from online_rank import cli; from online_rank.cli import demo; demo.QUERIES = 240; cli.main()"


def on_terminal(*arguments, columns=100, code=IMPATIENT):
    """What a command writes to a terminal, and its exit code."""
    arguments, options = [sys.executable, "-c", code, *map(str, arguments)], command()[1]
    parent, child = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "40"}
    with subprocess.Popen(arguments, **options, stdin=child, stdout=child, stderr=child, env=environment) as process:
        os.close(child)
        written = io.BytesIO()
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if select.select([parent], [], [], 0.2)[0]:
                try:
                    data = os.read(parent, 1 << 16)
                except OSError:
                    break
                written.write(data)
            elif process.poll() is not None:
                break
        os.close(parent)
    return written.getvalue().decode(), process.returncode


@pytest.mark.slow
def test_demo_on_a_terminal_is_live(run):
    screen, code = on_terminal("demo", code=SHORT)
    assert code == 0
    assert "\x1b[" in screen
    assert "↑ the truth changes" in screen
    assert "█" in screen
    assert "Traceback" not in screen


@pytest.mark.slow
def test_commands_on_a_terminal_show_their_progress(files):
    train = [
        "train",
        files / "a.txt",
        "--ranker",
        "perceptron",
        "--shuffle",
        1,
        "--test",
        files / "test.txt",
        "--certify",
        "--save",
        files / "m.npz",
    ]
    screen, code = on_terminal(*train, columns=150)
    assert code == 0
    for label in ("reading for the comparator", "batch weights", "learning", "measuring"):
        assert label in screen
    assert re.search(r"40 queries  [\d,.]+/s  0:00:00 left  ndcg@10 0\.\d{4}", screen)
    screen, code = on_terminal("evaluate", files / "m.npz", files / "test.txt", columns=150)
    assert code == 0
    assert "measuring" in screen


@pytest.mark.slow
def test_quiet_and_json_show_no_progress(files):
    certified = "--ranker", "perceptron", "--certify"
    screen, code = on_terminal("train", files / "a.txt", *certified, "--quiet", "--save", files / "m.npz")
    assert (screen, code) == ("", 0)
    for arguments in (["train", files / "a.txt", "--json"], ["evaluate", files / "m.npz", files / "test.txt", "--json"]):
        screen, code = on_terminal(*arguments)
        assert code == 0
        assert json.loads(screen)
    loud, _ = on_terminal("evaluate", files / "m.npz", files / "test.txt")
    assert "measuring" in loud


def test_a_table_is_sent_to_the_readme(files, run):
    (files / "train.csv").write_text("search,grade,price\n1,0,2\n")
    run("train", files / "a.txt", "-q", "--save", files / "m.npz")
    for arguments in (["train"], ["evaluate", files / "m.npz"], ["rank", files / "m.npz"]):
        code, _, err = run(*arguments, files / "train.csv")
        assert code == 2
        assert "train.csv: a table; name its columns: query= (--query COLUMN), grade= (--grade COLUMN)" in err


def test_linear_weights_are_certified_against_the_batch_weights(files, run):
    certified = "--ranker", "perceptron", "--certify"
    code, out, _ = run("train", files / "a.txt", *certified, "--json")
    certificate = json.loads(out)["certificate"]
    assert code == 0
    assert certificate["comparator"] == "batch weights"
    assert certificate["holds"]
    assert certificate["loss"] == pytest.approx(json.loads(out)["passes"][0]["loss"])
    code, out, _ = run("train", files / "a.txt", *certified)
    assert code == 0
    assert "Certificate against" in out


def test_curves_are_certified_against_their_best_candidate(files, run):
    code, out, _ = run("train", files / "a.txt", "--certify", "--json")
    certificate = json.loads(out)["certificate"]
    assert code == 0
    assert certificate["holds"]
    assert certificate["comparator"] is None
    assert {check["name"] for check in certificate["bounds"]} == {"blend_bound"}
    assert certificate["measured"]["best_blend"] <= certificate["loss"] + 1e-9
    assert certificate["measured"]["n_drawn"] == 0


def test_a_certified_run_tests_the_weights_that_serve(files, run):
    figures = []
    for certify in ([], ["--certify"]):
        linear = "train", files / "a.txt", "--ranker", "perceptron"
        code, out, _ = run(*linear, "--test", files / "test.txt", "--json", *certify)
        assert code == 0
        figures.append(json.loads(out)["test"])
    plain, certified = figures
    assert certified == plain


def test_compare(files, run):
    for name, source in (("one", "a"), ("two", "b")):
        assert run("train", files / f"{source}.txt", "--save", files / f"{name}.npz")[0] == 0
    models = files / "one.npz", files / "two.npz"
    code, out, _ = run("compare", *models, files / "test.txt", "--json")
    assert code == 0
    told = json.loads(out)
    losses = [1.0 - progressive_value(load(model), files / "test.txt") for model in models]
    assert [told["losses"][str(model)] for model in models] == pytest.approx(losses)
    assert told["difference"]["mean"] == pytest.approx(losses[1] - losses[0])
    assert told["difference"]["lower"] <= told["difference"]["mean"] <= told["difference"]["upper"]
    assert told["counted"] == told["queries"] == 40
    code, out, _ = run("compare", *models, files / "test.txt")
    assert code == 0
    assert "neither is better at 95 %" in out
    assert "on a query to come, if queries are drawn independently" in out
    code, _, err = run("compare", models[0], models[0], files / "test.txt")
    assert code == 2
    assert "compared with itself" in err


def progressive_value(model, path):
    """Mean NDCG@10 of a model that does not learn, ties broken pessimistically."""
    ndcg = online_rank.measure("ndcg@10")
    return float(np.mean([ndcg.value(model.predict_one(X), y, ties="pessimistic") for X, y in read(path)]))


def test_certificates_need_queries_that_can_be_read_twice(files, run):
    code, _, err = run("train", "-", "--ranker", "perceptron", "--certify")
    assert code == 2
    assert "--certify needs a re-readable file" in err
