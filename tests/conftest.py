"""What tests must not depend on: random examples, and how the test run was started."""

import signal

from hypothesis import settings

# A shell without job control starts background commands with SIGINT ignored, which processes started by tests would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Neither a seed, nor what an earlier run found, nor the speed of the machine decides whether a test passes.
settings.register_profile("same", derandomize=True, database=None, deadline=None)
# `--hypothesis-profile=random`: examples that no run has tried before. A failure prints how to repeat it.
settings.register_profile("random", derandomize=False, database=None, deadline=None, print_blob=True)
settings.load_profile("same")
