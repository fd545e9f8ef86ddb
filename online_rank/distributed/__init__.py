"""Learning on several machines: models that learn parts of a stream and are mixed, and a ranker for each key of a topic."""

from online_rank.distributed.mixing import fork, learn_shard, mix
from online_rank.distributed.rounds import Training, learn_files
from online_rank.storage.files import from_bytes, to_bytes

__all__ = ["Training", "fork", "from_bytes", "learn_files", "learn_shard", "mix", "to_bytes"]
