"""`online-rank warm-up`."""

import online_rank


def warm_up() -> None:
    """Compile the kernels, for example in a container image; otherwise the first command compiles them."""
    online_rank.warm_up()
