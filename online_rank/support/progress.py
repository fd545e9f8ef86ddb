"""Progress bars on stderr: amount done, rate and time left. They need rich (extra `cli`)."""

import contextlib
import datetime
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from online_rank.support.compiling import compiling, watch_compilation
from online_rank.support.lazy import MissingExtra

_REFRESH = 0.1
#: Seconds before a bar appears that was not requested explicitly, so that short calls do not flicker.
_PATIENCE = 0.5

#: Held by the bar on the screen: there is one at a time, the outermost.
_SCREEN = threading.Lock()


_Item = TypeVar("_Item")

#: Returns figures by name.
Figures = Callable[[], Mapping[str, float]]


class Progress:
    """Receives updates on how much is done; this base class shows nothing."""

    def __call__(self, done: int, figures: Figures | None = None) -> None:
        """Record how many units are done, and the function that returns the figures to show; it is called only when they are
        shown.
        """


@contextlib.contextmanager
def progress(
    label: str,
    total: int | None = None,
    unit: str = "queries",
    shown: bool | None = None,
    part: Callable[[], float | None] = lambda: None,
) -> Iterator[Progress]:
    """A context that gives a `Progress`, with a bar while it lasts.

    Parameters
    ----------
    label
        What is being done.
    total
        Total number of units, if known.
    unit
        Name of the unit; an empty string shows none.
    shown
        Whether to show a bar; None shows one on a terminal, if rich is installed and the call takes more than a moment.
    part
        Used without a total: returns the fraction done, from 0 to 1, or None. Called only when the bar is drawn.

    Raises
    ------
    ImportError
        `shown` is True, and rich is not installed.
    """
    if shown is False or (shown is None and not sys.stderr.isatty()) or not _SCREEN.acquire(blocking=False):
        yield Progress()
        return
    try:
        try:
            bar = _Bar(label, total, unit, part)
        except ImportError:
            if shown:
                raise MissingExtra('the progress bar needs rich: pip install "online_rank[cli]"') from None
            yield Progress()
            return
        appearance = threading.Timer(_PATIENCE, bar.rich.start)
        if shown or not _PATIENCE:
            bar.rich.start()
        else:
            appearance.daemon = True
            appearance.start()
        try:
            yield bar
        finally:
            appearance.cancel()
            if appearance.is_alive():
                appearance.join()
            if bar.rich.live.is_started:
                bar.draw()
                bar.rich.stop()
    finally:
        _SCREEN.release()


@contextlib.contextmanager
def counted(items: Iterable[_Item], label: str, unit: str = "queries", shown: bool | None = None) -> Iterator[Iterator[_Item]]:
    """A context that gives the items of a stream, counted by a bar (`progress`).

    The stream may say its length, `n_queries`, or the `fraction` that has been read.
    """
    total = getattr(items, "n_queries", None)
    with progress(label, total, unit, shown, lambda: getattr(items, "fraction", None)) as show:

        def each() -> Iterator[_Item]:
            for number, item in enumerate(items, start=1):
                yield item
                show(number)

        yield each()


class _Bar(Progress):
    """Redraws the bar a few times a second."""

    def __init__(self, label: str, total: int | None, unit: str, part: Callable[[], float | None]) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, ProgressColumn, TextColumn
        from rich.progress import Progress as RichProgress
        from rich.text import Text

        class Now(ProgressColumn):
            """The kernel being compiled, if any; otherwise the progress of the call."""

            def render(self, task: Any) -> Any:
                speed, left = task.speed, task.time_remaining
                parts = (
                    f"{task.completed:,} {unit}",
                    f"{speed:,.{0 if speed >= 10 else 1}f}/s" if speed else "",
                    "" if left is None else f"{datetime.timedelta(seconds=left)} left",
                    task.fields["figures"],
                )
                return Text(compiling() or "  ".join(filter(None, parts)))

        watch_compilation()
        console = Console(stderr=True)
        self.rich = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            Now(),
            console=console,
            transient=console.is_interactive,
            # Other output keeps its destination; on the same terminal it is printed above the bar.
            redirect_stdout=sys.stdout.isatty(),
            get_time=time.monotonic,
            # So that what was spent on compiling is soon forgotten.
            speed_estimate_period=10.0,
        )
        self.rich.add_task(label, total=total, figures="")
        (self._task,) = self.rich.tasks
        self._part = part
        self._next = 0.0
        self._state: tuple[int, Figures | None] = 0, None

    def __call__(self, done: int, figures: Figures | None = None) -> None:
        self._state = done, figures
        if (now := time.monotonic()) >= self._next:
            self._next = now + _REFRESH
            self.draw()

    def draw(self) -> None:
        """Show the latest state."""
        done, figures = self._state
        if (part := self._part()) is not None:
            self._task.total = done / part if part > 0.0 else None
        shown = "  ".join(f"{name} {value:.4f}" for name, value in (figures() if figures else {}).items())
        self.rich.update(self._task.id, completed=done, figures=shown)
