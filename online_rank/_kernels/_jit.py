"""Decorators that make kernels.

`kernel` decorates functions called from Python, the *entries*; `inner`, `leaf` and `inlined` decorate functions called only
from kernels. If there is an object file of kernels compiled ahead of time (`ahead`), an entry is a function in it. Otherwise
numba compiles it on the first call, for the dtypes of the arguments, and caches the machine code on disk; if several processes
call it, one of them compiles it and the others wait. Either way the GIL is released while it runs.
"""

import contextlib
import functools
import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from online_rank._kernels.ahead import loading
from online_rank._kernels.ahead.trust import Distrusted, require_own_folder, say_distrust

# _nrt is named because a kernel that is compiled for a leaf would take it from there.
# error_model="numpy": division by zero gives inf or NaN as in numpy, and no check in the inner loops.
# No fast flags anywhere: bits must not depend on the processor. `primitives` has sums that vectorise without.
_OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": True}

# Wrappers for calls from Python and from C take a fifth of the compile time. A kernel called only from kernels needs neither.
_NO_WRAPPERS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

#: Entries and the argument types of their calls, while a process records them (`online_rank.support.warm_up`).
recorded: "dict[tuple[Kernel, tuple[Any, ...]], None] | None" = {} if os.environ.get("_ONLINE_RANK_RECORD") else None
_recording = True


_REMEDY = "set NUMBA_CACHE_DIR to a folder of this user, or run `online-rank warm-up` with ONLINE_RANK_CACHE_DIR set to one"

#: Seconds that a process waits for another one that compiles the same kernel, and between two looks.
_PATIENCE, _POLL = 120.0, 0.02

#: Objects that are made between two collections while numba compiles.
_ALLOCATIONS = 100_000


class Kernel:
    """A kernel that numba has not compiled yet; numba is imported when this kernel, or one that calls it, is first called."""

    _all: ClassVar[list[Any]] = []

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.py_func, self.targetoptions = function, options
        functools.update_wrapper(self, function)
        self._all.append(self)

    @classmethod
    def forget(cls) -> None:
        """Discard the compiled function, after a change of numba's settings."""
        for made in cls._all:
            vars(made).pop("dispatcher", None)

    @property
    def entry_name(self) -> str:
        """Module and name, as in `dense.score`."""
        return f"{self.py_func.__module__.rpartition('.')[2]}.{self.py_func.__name__}"

    @property
    def options(self) -> dict[str, Any]:
        """The options passed to numba."""
        return {**_OPTIONS, **self.targetoptions}

    @functools.cached_property
    def dispatcher(self) -> Any:
        """The compiled function."""
        return _dispatcher(self.py_func, self.targetoptions)

    def __call__(self, *arguments: Any) -> Any:
        if recorded is None:
            return self.dispatcher(*arguments)
        global _recording
        # Kernels called from kernels are not entries.
        if _recording:
            import numba

            recorded[self, tuple(map(numba.typeof, arguments))] = None
        before, _recording = _recording, False
        try:
            return self.dispatcher(*arguments)
        finally:
            _recording = before


def _of_no_kind(first: Any, *_: Any) -> Any:
    raise TypeError(f"no kernel of this verb is for {type(first).__name__}")


class Verb:
    """A function with one kernel for each class of its first argument: an array, or a named tuple.

    In compiled code the kernel is chosen when its caller is compiled (`_intrinsics`), and costs what a direct call costs.
    """

    def __init__(self, name: str, kernels: dict[type, Any]) -> None:
        self.name = name
        self.choose = functools.singledispatch(_of_no_kind)
        for kind, kernel in kernels.items():
            self.choose.register(kind, kernel)

    def __call__(self, *arguments: Any) -> Any:
        return self.choose(*arguments)


#: The `Kernel` of each entry that numba did not compile, by `id`.
_stand_ins: dict[int, Kernel] = {}


@functools.cache
def _teach_numba() -> None:
    """Let compiled kernels call kernels not compiled yet, entries of an object file, verbs, and `primitives`."""
    from numba.core import types
    from numba.extending import typeof_impl

    from online_rank._kernels import _intrinsics

    typeof_impl.register(Verb)(lambda value, context: _intrinsics.VerbType(value))
    if _notified:
        _watch()

    @typeof_impl.register(Kernel)
    def _of_kernel(value: Any, context: Any) -> Any:
        return types.Dispatcher(value.dispatcher)

    @typeof_impl.register(type(len))
    def _of_entry(value: Any, context: Any) -> Any:
        return types.Dispatcher(_stand_ins[id(value)].dispatcher) if id(value) in _stand_ins else None


def _ways(called_by_kernels: bool) -> tuple[dict[str, Any], Any]:
    """How numba compiles a function, as options, and the class of its cache."""
    from numba.core.caching import FunctionCache

    from online_rank._kernels import linked

    if called_by_kernels:
        return {"pipeline_class": linked.Pipeline}, linked.Cache
    return {"pipeline_class": linked.PipelineOfEntry}, FunctionCache


def _dispatcher(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Compile a kernel with numba."""
    import numba

    _teach_numba()
    called_by_kernels = "no_cpython_wrapper" in options
    pipeline, cache_class = _ways(called_by_kernels)
    dispatcher: Any = numba.njit(**{**_OPTIONS, **options, **pipeline})(function)
    if dispatcher is function:  # NUMBA_DISABLE_JIT
        return dispatcher
    _hasten(dispatcher)
    if not called_by_kernels:
        _give_kernels(dispatcher, functools.cache(lambda: _dispatcher(function, {**options, **_NO_WRAPPERS})))
    try:
        cache = cache_class(function)
    except RuntimeError:
        # Neither the package folder nor the user's cache folder is writable: compile in every process.
        say_distrust(f"no cache of numba can be written, so every start compiles: {_REMEDY}")
        return dispatcher
    if _is_own(cache.cache_path):
        dispatcher._cache = cache
        cache_file = cache._cache_file
        # numba invalidates a cached function when its own file changes, not when a function that it calls, in another file,
        # does. With this version a cached kernel is used only while all kernel files are unchanged. numba compares it before it
        # reads anything else, which may be of classes that an earlier version of this package had.
        cache_file._version = f"{cache_file._version}, {loading.source_digest().hex()}"
        cache_file._source_stamp = None
        compile_ = dispatcher.compile

        def compile_in_turn(signature: Any) -> Any:
            with _turn(f"{cache_file._index_path}.lock"):
                return compile_(signature)

        dispatcher.compile = compile_in_turn
    return dispatcher


def _hasten(dispatcher: Any) -> None:
    """Let numba compile a kernel in less time."""
    from numba.core import types

    from online_rank._kernels import linked

    template, compile_, flags_class = dispatcher.get_call_template, dispatcher.compile, _flags_class()

    @functools.cache
    def template_of(args: Any) -> Any:
        return template(args, {})

    def template_of_variables(args: Any, kws: Any) -> Any:
        # For a constant, numba would compile another version. LLVM makes one of this version where it pays.
        args = tuple(map(types.unliteral, args))
        return template(args, {name: types.unliteral(kind) for name, kind in kws.items()}) if kws else template_of(args)

    def customised(flags: Any) -> Any:
        found = flags_class(flags)
        # numba compiles its own functions for each set of flags of their callers. `linked` makes no wrapper all the same.
        found.no_cpython_wrapper = False
        return found

    def compile_with_little_collecting(signature: Any) -> Any:
        with _collecting_rarely(), linked.signatures_remembered():
            return compile_(signature)

    dispatcher.get_call_template, dispatcher.compile = template_of_variables, compile_with_little_collecting
    dispatcher._compiler._customize_flags = customised


def _give_kernels(dispatcher: Any, version: Callable[[], Any]) -> None:
    """Let kernels that call an entry take a version of it without separate machine code."""
    dispatcher.get_call_template = lambda args, kws: version().get_call_template(args, kws)
    dispatcher.get_overload = lambda signature: version().get_overload(signature)


@functools.cache
def _flags_class() -> Any:
    """The class of a kernel's flags: numba compares all of them each time that it looks up what it compiled."""
    from numba.core.compiler import Flags

    defaults = {name: option.default for name, option in Flags.options.items()}

    class QuickFlags(Flags):
        __slots__ = ()

        def values(self) -> dict[str, Any]:
            return defaults | self._values

    return QuickFlags


@contextlib.contextmanager
def _collecting_rarely() -> Iterator[None]:
    """Let Python look for garbage rarely: nearly all that numba makes is in use until the kernel is compiled."""
    from numba.core.compiler_lock import global_compiler_lock

    # One thread at a time, so that each gives back what it found.
    with global_compiler_lock:
        before = gc.get_threshold()
        if before[0] > 0:
            gc.set_threshold(max(before[0], _ALLOCATIONS), *before[1:])
        try:
            yield
        finally:
            gc.set_threshold(*before)


@functools.cache
def _is_own(folder: str) -> bool:
    """Whether numba may read code from its cache: nobody else can write to it, or else to the sources next to it."""
    if Path(folder).parent == Path(__file__).parent:
        return True
    try:
        require_own_folder(Path(folder))
    except (OSError, Distrusted) as error:
        say_distrust(str(error))
        return False
    return True


@contextlib.contextmanager
def _turn(path: str) -> Iterator[None]:
    """Wait until no other process compiles this kernel: what it compiled is then in numba's cache.

    Kernels do not call each other in circles, so neither do these locks wait for each other. Without such locks on the system,
    and after `_PATIENCE` seconds, a kernel may be compiled twice.
    """
    try:
        import fcntl

        file = open(path, "ab")  # noqa: SIM115
    except (ImportError, OSError):
        yield
        return
    # Closing the file, also by the end of the process, gives the lock back. A forked process does not inherit it.
    with file:
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except (BlockingIOError, PermissionError):
                time.sleep(_POLL)
            except OSError:  # A file system without locks.
                break
        yield


@functools.cache
def _lazy() -> bool:
    """Whether numba may not be needed at all; otherwise its own dispatcher is faster to call from Python than a `Kernel`."""
    return recorded is not None or loading.why_not() is None


def _made(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    return Kernel(function, options) if _lazy() else _dispatcher(function, options)


def kernel(function: Callable[..., Any]) -> Any:
    """Make a kernel that Python calls."""
    made = _made(function, {"no_cfunc_wrapper": True})
    if recorded is not None or not isinstance(made, Kernel):
        return made
    entry = loading.entry(made.entry_name, made)
    if entry is None:
        return made
    _stand_ins[id(entry)] = made
    return entry


@functools.cache
def _compiles() -> bool:
    """Whether kernels are compiled at all; otherwise they are called as plain Python."""
    return recorded is not None or os.environ.get("NUMBA_DISABLE_JIT", "") in ("", "0")


def _called_by_kernels(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    # numba asks for it when it compiles a kernel that calls it: never, if that kernel's code comes from a file.
    return Kernel(function, {**_NO_WRAPPERS, **options}) if _compiles() else _made(function, {**_NO_WRAPPERS, **options})


def inner(function: Callable[..., Any]) -> Any:
    """As `kernel`, for a function that only kernels call: Python cannot."""
    return _called_by_kernels(function, {})


def inlined(function: Callable[..., Any]) -> Any:
    """As `inner`, for the common body of several kernels: it is inlined into each of them, and not compiled separately."""
    return _called_by_kernels(function, {"inline": "always"})


def leaf(function: Callable[..., Any]) -> Any:
    """As `inner`, for a function that neither makes nor returns an array: it does not count references to arrays.

    Counting takes a locked instruction each time a row is taken from a workspace, which is most of the time of a short query.
    """
    return _called_by_kernels(function, {"_nrt": False})


#: Functions that `_watch` calls with the name of each kernel that numba begins to compile, and with None when one is done.
_notified: list[Callable[[str | None], None]] = []


def on_compilation(notify: Callable[[str | None], None]) -> None:
    """Call `notify` with the name of each kernel that this process compiles from now on, and with None when one is done."""
    _notified.append(notify)
    if "numba" in sys.modules:
        _watch()


@functools.cache
def _watch() -> None:
    import numba

    # Where another thread is importing numba, that line waits for it. `from numba.core import event` would not, and each thread
    # would meet the other's modules half made.
    event = numba.core.event

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            for notify in _notified:
                notify(event.data["dispatcher"].py_func.__name__)

        def on_end(self, event: Any) -> None:
            for notify in _notified:
                notify(None)

    event.register("numba:compile", Listener())
