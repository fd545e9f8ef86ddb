"""Kernels compiled ahead: what they answer, when numba is asked instead, and that nothing else needs it."""

import os
import pathlib
import platform
import subprocess
import sys
from collections import namedtuple

import pytest
from numba import float64, types

from online_rank._kernels.ahead import loading
from online_rank._kernels.ahead.building import _merged, environment

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="these tests need an object for Linux"),
]

ENTRIES = ("arrays.all_finite", "averages.scale_and_shift", "dense.score", "preprocessing.normalise_queries")
PLAIN = {k: v for k, v in os.environ.items() if k not in ("ONLINE_RANK_JIT", "NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK")}


def run(code, **variables):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**PLAIN, **variables})
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with an object file of some small kernels, made like the full ones."""
    folder = tmp_path_factory.mktemp("objects")
    command = [sys.executable, "-m", "online_rank.support.warm_up", str(folder), loading.targets()[0], *ENTRIES]
    done = subprocess.run(command, capture_output=True, text=True, env=PLAIN)
    assert done.returncode == 0, done.stderr
    assert "left to numba" not in done.stdout
    assert not [*folder.glob("*.parts")], "kernels of a complete build are kept"
    assert (
        done.stderr.splitlines()[0]
        == f"online-rank: compiling the kernels for {loading.targets()[0]}, which takes some minutes"
    )
    return str(folder)


def test_entries_answer_as_numba_does_and_need_none(folder):
    code = (
        "import sys, numpy as np\n"
        "from online_rank._kernels import arrays, averages, dense\n"
        "rng = np.random.default_rng(0)\n"
        "for dtype in (np.float64, np.float32):\n"
        "    X, w, s = rng.normal(size=(7, 5)).astype(dtype), rng.normal(size=5), np.empty(7)\n"
        "    X.setflags(write=False)\n"
        "    print(dense.score(X, w, s), s.tolist())\n"
        "print(arrays.all_finite(s), arrays.all_finite(s / 0), averages.scale_and_shift(1.0, True, np.full(8, 4.0)))\n"
        "print('numba' in sys.modules, type(dense.score).__name__)\n"
    )
    *ahead, last = run(code, ONLINE_RANK_CACHE_DIR=folder)
    assert last == "False builtin_function_or_method"
    *jit, last = run(code, ONLINE_RANK_CACHE_DIR=folder, ONLINE_RANK_JIT="1")
    assert last == "True CPUDispatcher"
    assert ahead == jit
    assert ahead[-1] == "True False (1.0, 0.25)"


def test_a_kernel_that_sorts_has_its_memory(folder):
    code = (
        "import sys, numpy as np\n"
        "from online_rank._kernels import preprocessing\n"
        "X = np.random.default_rng(0).normal(size=(60, 3)).round(1)\n"
        "out = np.empty((60, 3))\n"
        "print(preprocessing.normalise_queries(X, np.arange(0, 61, 20), False, out), out.tolist())\n"
        "print('numba' in sys.modules)\n"
    )
    *ahead, last = run(code, ONLINE_RANK_CACHE_DIR=folder)
    assert last == "False"
    assert ahead == run(code, ONLINE_RANK_JIT="1")[:-1]
    assert ahead[0].startswith("3 [[")


def test_what_does_not_fit_goes_to_numba(folder):
    code = (
        "import sys, numpy as np\n"
        "from online_rank._kernels import dense\n"
        "X, w, s = np.arange(12.0).reshape(3, 4), np.ones(4), np.empty(3)\n"
        "dense.score(X, w, s)\n"
        "before = 'numba' in sys.modules\n"
        "dense.score(X.astype('i8'), w, s)\n"
        "integers = s.tolist()\n"
        "dense.score(np.arange(24.0).reshape(3, 8)[:, ::2], w, s)\n"
        "print(before, 'numba' in sys.modules, integers, s.tolist())\n"
        "frozen = np.empty(3); frozen.setflags(write=False)\n"
        "for bad in ((X, w, frozen), (X, w), (X, w, [0.0] * 3), (X.astype('>f8'), w, s)):\n"
        "    try: dense.score(*bad); print('accepted')\n"
        "    except Exception as error: print(type(error).__name__)\n"
    )
    first, *refused = run(code, ONLINE_RANK_CACHE_DIR=folder)
    assert first == "False True [6.0, 22.0, 38.0] [12.0, 44.0, 76.0]"
    assert refused[:3] == ["TypingError", "TypeError", "TypingError"]
    assert refused[3] != "accepted"


def test_errors_keep_their_kind(folder):
    code = (
        "import numpy as np\n"
        "from online_rank._kernels import dense\n"
        "try: dense.score(np.ones((3, 4)), np.ones(5), np.empty(3))\n"
        "except ValueError as error: print(type(error).__name__, error)\n"
    )
    ahead = run(code, ONLINE_RANK_CACHE_DIR=folder)
    assert ahead == run(code, ONLINE_RANK_JIT="1")
    assert ahead == ["ValueError arrays of a kernel do not fit together"]


@pytest.mark.parametrize("as_elsewhere", [False, True])
def test_arrays_without_rows_are_taken(as_elsewhere, tmp_path):
    """Gradient descent keeps no state except its weights: an array of no rows, whose strides numpy gives as 0.

    On other systems than Linux code is compiled in another way, which Linux can run too.
    """
    target = loading.targets()[0]
    made = (
        "from online_rank._kernels.ahead import building\n"
        f"building._is_for_this_system = lambda target: {as_elsewhere}\n"
        "import numba\n"
        "from pathlib import Path\n"
        "from online_rank._kernels._jit import Kernel\n"
        "from online_rank._kernels.ahead.building import build\n"
        "def total(x):\n"
        "    s = 0.0\n"
        "    for value in x.ravel():\n"
        "        s += value\n"
        "    return s\n"
        f"print(build([(Kernel(total, {{}}), (numba.float64[:, ::1],))], {target!r}, Path({str(tmp_path)!r}))[1])\n"
    )
    assert run(made, **environment(target)) == ["{}"]
    called = (
        "import numpy as np\n"
        "from online_rank._kernels.ahead.loading import entry\n"
        "total = entry('__main__.total', lambda x: 'compiled')\n"
        "print(total(np.ones((0, 5))), total(np.ones((3, 0))), total(np.ones((3, 5))), total(np.ones((3, 4)).T))\n"
    )
    assert run(called, ONLINE_RANK_CACHE_DIR=str(tmp_path)) == ["0.0 0.0 15.0 compiled"]


@pytest.mark.long
def test_a_stopped_build_continues_with_the_kernels_that_it_finished(tmp_path):
    """Three kernels; the first build is stopped before the third. A damaged file is compiled again."""
    target = loading.targets()[0]
    build = (
        "import sys, numba\n"
        "from pathlib import Path\n"
        "from online_rank._kernels._jit import Kernel\n"
        "from online_rank._kernels.ahead import building\n"
        "def once(x):\n    return 1.0 + x\n"
        "def twice(x):\n    return 2.0 * x\n"
        "def thrice(x):\n    return 3.0 * x\n"
        "compiled, compile = [], building._without_wrappers\n"
        "def counted(kernel, arguments):\n"
        "    compiled.append(kernel.py_func.__name__)\n"
        "    return compile(kernel, arguments)\n"
        "building._without_wrappers = counted\n"
        "def show(done, n):\n"
        "    if done == int(sys.argv[-1]):\n"
        "        raise KeyboardInterrupt\n"
        f"calls, folder = [(Kernel(one, {{}}), (numba.float64,)) for one in (once, twice, thrice)], Path({str(tmp_path)!r})\n"
        "try:\n"
        f"    building.build(calls, {target!r}, folder, show, kept_in=folder)\n"
        "except KeyboardInterrupt:\n"
        "    print('stopped')\n"
        "print(*compiled)\n"
    )

    def built(stop):
        done = subprocess.run([sys.executable, "-c", build, stop], capture_output=True, text=True, env=environment(target))
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    assert built("2") == ["stopped", "once twice"]
    assert not list(tmp_path.glob("*.o"))
    kept = sorted(tmp_path.glob("*.parts/*.bc"))
    assert len(kept) == 2
    assert built("-1") == ["thrice"]
    called = (
        "from online_rank._kernels.ahead.loading import entry\n"
        "print(*[entry(f'__main__.{name}', lambda x: 'compiled')(5.0) for name in ('once', 'twice', 'thrice')])\n"
    )
    assert run(called, ONLINE_RANK_CACHE_DIR=str(tmp_path)) == ["6.0 10.0 15.0"]
    for path in kept:
        path.write_bytes(path.read_bytes()[:-1])
    assert built("-1") == ["once twice"]


def test_named_tuples_are_taken(tmp_path):
    """Arrays that travel together are one argument, by name in the kernel; only their number and types are checked."""
    target = loading.targets()[0]
    made = (
        "import numba, numpy as np\n"
        "from collections import namedtuple\n"
        "from pathlib import Path\n"
        "from online_rank._kernels._jit import Kernel\n"
        "from online_rank._kernels.ahead.building import build\n"
        "Pair = namedtuple('Pair', 'x w')\n"
        "def total(pair, factor):\n"
        "    s = 0.0\n"
        "    for i in range(pair.x.shape[0]):\n"
        "        s += pair.x[i] * pair.w[i]\n"
        "    return factor * s\n"
        "kinds = numba.typeof(Pair(np.ones(2), np.ones(2))), numba.float64\n"
        f"print(build([(Kernel(total, {{}}), kinds)], {target!r}, Path({str(tmp_path)!r}))[1])\n"
    )
    assert run(made, **environment(target)) == ["{}"]
    called = (
        "import numpy as np\n"
        "from collections import namedtuple\n"
        "from online_rank._kernels.ahead.loading import entry\n"
        "Pair = namedtuple('Pair', 'x w')\n"
        "total = entry('__main__.total', lambda pair, factor: 'compiled')\n"
        "x, w = np.array([1.0, 2.0]), np.array([3.0, 5.0])\n"
        "for pair in (Pair(x, w), (x, w), [x, w], (x,), (x, w, w), Pair(x, w[:, None]), Pair(x.astype('i8'), w), x):\n"
        "    print(total(pair, 2.0))\n"
    )
    compiled = ["compiled"] * 6
    assert run(called, ONLINE_RANK_CACHE_DIR=str(tmp_path)) == ["26.0", "26.0", *compiled]


def test_an_array_in_a_tuple_that_was_read_only_once_may_be_read_only():
    own, lent = float64[::1], types.Array(float64, 1, "C", readonly=True)
    for named in (None, namedtuple("Pair", "x w")):
        calls = [(len, (types.BaseTuple.from_types(items, named),)) for items in ((own, lent), (own, own))]
        for order in (calls, calls[::-1]):
            ((_, (kind,)),) = _merged(order)
            assert [array.mutable for array in kind.types] == [True, False]
            assert getattr(kind, "instance_class", None) is named


def test_a_kernel_that_is_not_in_the_file_calls_one_that_is(folder):
    code = (
        "import numpy as np\n"
        "from online_rank._kernels import _jit, dense\n"
        "score = dense.score\n"
        "def twice(X, w, s):\n"
        "    score(X, w, s)\n"
        "    return 2.0 * s\n"
        "print(_jit.kernel(twice)(np.arange(6.0).reshape(2, 3), np.ones(3), np.empty(2)), type(score).__name__)\n"
    )
    assert run(code, ONLINE_RANK_CACHE_DIR=folder) == ["[ 6. 24.] builtin_function_or_method"]
    assert run(code, ONLINE_RANK_JIT="1") == ["[ 6. 24.] CPUDispatcher"]


@pytest.mark.parametrize(
    ("switch", "reason"),
    [("ONLINE_RANK_JIT", "ONLINE_RANK_JIT is set"), ("NUMBA_BOUNDSCHECK", "NUMBA_BOUNDSCHECK is set")],
)
def test_the_reason_is_known(folder, switch, reason):
    code = "from online_rank._kernels.ahead import loading; print(loading.why_not(), '|', loading.in_use())"
    assert run(code, **{switch: "1", "ONLINE_RANK_CACHE_DIR": folder}) == [f"{reason} | compiled by numba: {reason}"]


def test_an_edited_kernel_is_compiled_by_numba(folder, tmp_path):
    code = "from online_rank._kernels.ahead import loading; print(loading.why_not(), '|', loading.in_use())"
    path = os.path.join(folder, loading.object_name(loading.targets()[0]))
    assert run(code, ONLINE_RANK_CACHE_DIR=folder) == [f"None | machine code of {path}"]
    # The name has the digest of the sources; with another digest it is not found.
    (line,) = run(
        "from online_rank._kernels.ahead import loading; loading.source_digest = lambda: b'edited' * 6\n" + code,
        ONLINE_RANK_CACHE_DIR=folder,
    )
    assert line.startswith(f"there is no object file {loading.targets()[0]}-")


@pytest.mark.parametrize(
    ("system", "machine", "expected"),
    [
        ("darwin", "arm64", ["macos-arm64"]),
        ("win32", "AMD64", ["windows-x86-64-v3", "windows-x86-64"]),
        ("linux", "aarch64", ["aarch64"]),
        ("darwin", "x86_64", []),
    ],
)
def test_each_system_has_its_targets(system, machine, expected, monkeypatch):
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    features = {name: name != "avx512vl" for names in loading._LEVELS.values() for name in names}
    monkeypatch.setattr("llvmlite.binding.get_host_cpu_features", lambda: features)
    assert loading.targets() == expected


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other processors have no levels")
@pytest.mark.parametrize(
    ("missing", "expected"),
    [(None, ["x86-64-v4", "x86-64-v3", "x86-64"]), ("avx512vl", ["x86-64-v3", "x86-64"]), ("avx2", ["x86-64"])],
)
def test_the_best_level_that_a_machine_has_comes_first(missing, expected, monkeypatch):
    features = {name: name != missing for names in loading._LEVELS.values() for name in names}
    monkeypatch.setattr("llvmlite.binding.get_host_cpu_features", lambda: features)
    assert loading.targets() == expected


@pytest.mark.long
def test_what_later_queries_call_is_recorded():
    """Kernels of trees, of blocks that are ranked and learned, and of a second read-only query were left to numba."""
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from online_rank.support import warm_up\n"
        "from online_rank._kernels import _jit\n"
        "from online_rank._kernels.ahead.building import _merged\n"
        "warm_up._use_everything()\n"
        "for kernel, kinds in _merged(_jit.recorded):\n"
        "    print(kernel.entry_name, *[getattr(kind, 'mutable', '') for kind in kinds[1:2]])\n"
        "    print(kernel.entry_name, 'rows' if hasattr(kinds[0], 'types') else 'array')\n"
        "print(*{str(kind.dtype) for _, kinds in _jit.recorded for kind in kinds if hasattr(kind, 'layout')})\n"
    )
    *lines, dtypes = run(code, _ONLINE_RANK_RECORD="1", NUMBA_DISABLE_JIT="1")
    assert {*dtypes.split()} <= {*loading.TYPE_NUMBERS}
    # Their second argument, the grades, may be read-only.
    assert {"perceptron.learn False", "gradient.learn False", "direct.learn False"} <= {*lines}
    found = {line.partition(" ")[0] for line in lines}
    later = {"trees.find_splits", "trees.add_tree", "graded.ranking_losses", "perceptron.compare", "perceptron.learn_served"}
    others = {"clicks.learn", "clicks.harvest", "intervals.radius", "hindsight.objective"}
    vectors = {f"bilinear.{name}" for name in ("adapt", "answer", "fold", "learn", "norms", "push", "score", "unit")}
    assert later | others | vectors <= found
    # Of arrays and of sparse rows.
    assert {"gradient.learn array", "gradient.learn rows", "clicks.learn array", "clicks.learn rows"} <= {*lines}


_SCATTERED = """
import ctypes
import sys

import llvmlite.binding
import numpy as np

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
for _ in range(40):  # Reserved addresses, and a page between each two blocks of 3 GB.
    start = libc.mmap(None, 3 << 30, 0, 0x4022, -1, 0)
    libc.munmap(start + (3 << 30) - 4096, 4096)
from online_rank import PerceptronRanker
PerceptronRanker().learn_one(np.eye(2), [0, 1])
print("numba" in sys.modules)
"""


@pytest.mark.skipif(loading.why_not() is not None, reason="there is no object of all kernels")
def test_code_and_data_stay_together():
    """torch, imported first, leaves room for small pieces far from that for large ones: LLVM ended the process."""
    assert run(_SCATTERED) == ["False"]


@pytest.mark.parametrize("damage", ["empty", "truncated", "changed", "writable"])
def test_a_file_that_cannot_be_trusted_is_not_run_and_the_answer_is_the_same(folder, tmp_path, damage):
    """An empty or truncated object ended the process by SIGSEGV, a changed one by SIGABRT."""
    name = loading.object_name(loading.targets()[0])
    content = pathlib.Path(folder, name).read_bytes()
    if damage == "changed":
        content = content[:1000] + bytes(200) + content[1200:]
    cut = {"empty": 0, "truncated": len(content) // 2}.get(damage, len(content))
    (tmp_path / name).write_bytes(content[:cut])
    (tmp_path / name).chmod(0o666 if damage == "writable" else 0o600)
    code = (
        "import warnings\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    import numpy as np\n"
        "    from online_rank._kernels import arrays\n"
        "print(arrays.all_finite(np.ones(3)), type(arrays.all_finite).__name__)\n"
        "print(*[w.message for w in caught])\n"
    )
    answer, said = run(code, ONLINE_RANK_CACHE_DIR=str(tmp_path))
    assert answer == "True CPUDispatcher"
    assert said.startswith("compiled code is not used: ")
    assert ("others can write" if damage == "writable" else "truncated or damaged") in said


def test_an_unwritable_cache_raises_one_warning():
    """Every start compiled for a minute, silently."""
    code = (
        "import numpy as np, numba.core.caching\n"
        "numba.core.caching.CacheImpl._locator_classes = []\n"  # As if no folder were writable: root can write to all.
        "from online_rank._kernels import arrays\n"
        "print(arrays.all_finite(np.ones(3)))\n"
    )
    variables = {**PLAIN, "ONLINE_RANK_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=variables)
    assert done.stdout.strip() == "True"
    assert done.stderr.count("no cache of numba can be written, so every start compiles: set NUMBA_CACHE_DIR to") == 1
