"""Learning on several machines: models that learn parts of a stream and are mixed, and a ranker for each key of a topic."""

from typing import TYPE_CHECKING

from online_rank.distributed.mixing import fork, learn_shard, mix, shed
from online_rank.storage.files import from_bytes, to_bytes
from online_rank.support.lazy import lazily

if TYPE_CHECKING:
    from online_rank.distributed.rounds import Training, learn_files

__all__ = ["Training", "fork", "from_bytes", "learn_files", "learn_shard", "mix", "shed", "to_bytes"]

__getattr__, __dir__ = lazily(__name__, dict.fromkeys(("Training", "learn_files"), "rounds"))
