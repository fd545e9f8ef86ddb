"""Online learning to rank: models that learn from one query at a time.

The public names are loaded on first use, so that `import online_rank` costs next to nothing and compiles nothing.
"""

from online_rank.support.lazy import lazily
from online_rank.support.registry import ROOMS, TOP_LEVEL

__version__ = "0.2.0"
__all__ = [*TOP_LEVEL, "__version__"]

__getattr__, __dir__ = lazily(__name__, TOP_LEVEL, ROOMS)
