"""From a LETOR file to a model with a certificate. Run: python examples/letor.py [FILE]"""

import sys
import tempfile
from pathlib import Path

from online_rank import LossTracker, PerceptronRanker, StreamQuantileMap, evaluate, load, read, save
from online_rank.stream import NoisyTeacher, write_letor

folder = tempfile.TemporaryDirectory()
if len(sys.argv) > 1:
    file = sys.argv[1]
else:
    file = Path(folder.name) / "train.txt"
    write_letor(file, *NoisyTeacher(n_queries=800, n_features=25, n_documents=(10, 40), seed=3).block())

# A bound compares with fixed weights, the comparator, which may even be chosen in hindsight. Here they are the final weights of
# another ranker after one pass, on features as they were mapped at each query.
block = read(file).all()
hindsight = StreamQuantileMap() | PerceptronRanker(credit="spread", relative_margin=1.0)
hindsight.learn_many(block.X, block.y, block.qid)
weights = hindsight["PerceptronRanker"].served_weights

# The second pass learns from scratch, one query at a time, and measures the loss. The bound trades the length of the
# comparator against its errors, so try a few lengths.
comparators = {f"hindsight x {scale:g}": scale * weights for scale in (0.1, 0.3, 1.0, 3.0)}
tracker = LossTracker(PerceptronRanker(), comparators=comparators)
model = StreamQuantileMap() | tracker
print(evaluate.progressive(read(file, n_features=block.X.shape[1]), model, "ndcg@10"))

# Every line is a theorem evaluated on this stream; the program checks that the loss obeys it. The bounds are for the weights
# that learn; rankings are served by their average.
certificates = [tracker.certificate(name) for name in comparators]
print(min(certificates, key=lambda certificate: min(check.value for check in certificate.bounds)))

# The shell does the same: online-rank train FILE --ranker perceptron --certify --save model.npz
saved = Path(folder.name) / "model.npz"
save(model, saved)
first = block.X[block.qid == block.qid[0]]
as_before = load(saved).rank_one(first) == model.rank_one(first)
print(f"The model has {saved.stat().st_size:,} bytes; it ranks as before: {as_before}")
folder.cleanup()
