"""From a LETOR file to a model with a certificate."""

import os
import tempfile

import numpy as np

from online_rank import LossTracker, PerceptronRanker, StreamQuantileMap, evaluate, load, save
from online_rank.stream.letor import iter_letor, read_letor, write_letor
from online_rank.stream.synth import NoisyTeacher
from online_rank.walkthrough._say import heading, say, show


def run(file: str | None = None) -> None:
    """Learn from the file, certify the loss, save the model and load it again."""
    with tempfile.TemporaryDirectory() as folder:
        if file is None:
            file = os.path.join(folder, "train.txt")
            write_letor(file, *NoisyTeacher(n_queries=800, n_features=25, n_documents=(10, 40), seed=3).block())
            _read_and_learn(file, "a generated file, as none was given", os.path.join(folder, "model.npz"))
        else:
            _read_and_learn(file, file, os.path.join(folder, "model.npz"))


def _read_and_learn(file: str, what: str, model_file: str) -> None:
    heading("The file")
    with open(file, "rb") as lines:
        line = lines.readline(200).decode(errors="replace").rstrip()
    say(f"{what}: one document a line, its grade, its query, its features.")
    show(line if len(line) < 80 else f"{line[:76]} ...")

    heading("First pass: find weights to compare with")
    say("A bound compares with fixed weights, the comparator, which may even be chosen in hindsight. Here they are those of a "
        "ranker at the end of a pass of its own, on features as they were mapped at each query.")  # fmt: skip
    hindsight = StreamQuantileMap() | PerceptronRanker(credit="spread", relative_margin=1.0)
    block = read_letor(file)
    hindsight.learn_many(block.X, block.y, block.qid)
    weights = hindsight["PerceptronRanker"].served_weights
    show(f"{len(np.unique(block.qid)):,} queries, {len(block.y):,} documents, {len(weights)} columns behind the map")

    heading("Second pass: learn from scratch, one query at a time, and measure the loss")
    # The bound trades the length of u against its errors, so try a few lengths.
    comparators = {f"hindsight x {scale:g}": scale * weights for scale in (0.1, 0.3, 1.0, 3.0)}
    tracker = LossTracker(PerceptronRanker(), comparators=comparators)
    model = StreamQuantileMap() | tracker
    trace = evaluate.progressive(iter_letor(file, n_features=block.X.shape[1]), model, "ndcg@10")
    show(repr(trace))

    heading("The certificate")
    certificates = [tracker.certificate(name) for name in comparators]
    best = min(certificates, key=lambda certificate: min(check.value for check in certificate.bounds))
    print(best)
    say("Every line is a theorem evaluated on this stream; the program checks that the loss obeys it. The bounds are for "
        "the weights that learn; rankings are served by their average.")  # fmt: skip

    heading("The model, saved and loaded")
    save(model, model_file)
    again = load(model_file)
    X = block.X[block.qid == block.qid[0]]
    show(f"{os.path.getsize(model_file):,} bytes; it ranks as before: {again.rank_one(X) == model.rank_one(X)}")
    say("From the shell: online-rank train FILE --save model.npz --report report")
