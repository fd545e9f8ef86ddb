"""What time it is: the one place that decides it. The system clock may step; the time of services does not."""

import logging
import threading
from time import monotonic as _monotonic
from time import time as _system

_log = logging.getLogger("online_rank.serving")

#: Seconds from which a difference of the two clocks is a step. Slower corrections (slewing) move both.
_STEP = 1.0


class Clock:
    """Seconds since 1970, by the system clock at the beginning, and by the monotonic clock from then on.

    If the system clock is set, no window ends and nothing fades: this time continues as it was, and the log says what happened.
    The next process begins with the system clock again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ahead = _system() - _monotonic()
        #: By how many seconds the system clock is ahead of this one, because it was set.
        self.step = 0.0

    def now(self) -> float:
        """The time."""
        steady = _monotonic() + self._ahead
        difference = _system() - steady
        if abs(difference - self.step) > _STEP:
            self._stepped(difference)
        return steady

    def read(self, stamp: float) -> float:
        """A time that a client wrote, in the time of this clock.

        After a step nobody knows which of the clocks is right. A client has the time of one of the two: of the nearer one.
        """
        now = self.now()
        return stamp - self.step if abs(stamp - now - self.step) < abs(stamp - now) else stamp

    def _stepped(self, difference: float) -> None:
        """Log a step, once."""
        with self._lock:
            step, before = difference - self.step, self.step
            if abs(step) <= _STEP:
                return
            self.step = difference if abs(difference) > _STEP else 0.0
        _log.warning(
            "the system clock was set %s by %.1f seconds%s; windows, half-lives and times to live follow the monotonic clock",
            "forward" if step > 0.0 else "back", abs(step), "" if self.step or not before else ", to what it was",
        )  # fmt: skip


#: The clock of this process.
CLOCK = Clock()
