"""How hypothesis draws its examples: the same ones in every run, unless asked for others."""

from hypothesis import settings

# Neither a seed, nor what an earlier run found, nor the speed of the machine decides whether a test passes.
settings.register_profile("same", derandomize=True, database=None, deadline=None)
# `--hypothesis-profile=random`: examples that no run has tried before. A failure prints how to repeat it.
settings.register_profile("random", derandomize=False, database=None, deadline=None, print_blob=True)
settings.load_profile("same")
