"""Four retrievers, and users whose clicks teach how to fuse them. Run: python examples/hybrid.py

800 made-up documents: BM25 of titles and of bodies by SQLite, vectors by NumPy, and the newest of what these find. Each topic
has words that all its documents use, and senses with further words, of which a document uses half: so vectors find
documents that share no word with a query. Every other title advertises another topic. A document of the sense of a query has
grade 2, another one of its topic 1.
"""

import sqlite3

import numpy as np

from online_rank import PlackettLuce, RunFeatures, Runs, SwapRanker
from online_rank.metrics import NDCG
from online_rank.stream.clicks import user

N, WINDOW, K, DEPTH = 3000, 500, 10, 50
TOPICS, SENSES, DOCUMENTS = 12, 4, 800
RETRIEVERS = ("title", "body", "vector", "newest")

# The documents.
rng = np.random.default_rng(0)
syllables = ("ba", "de", "fi", "go", "ku", "la", "me", "no", "pi", "ra", "su", "ti", "vo", "we", "xa", "zu")
words = iter(rng.permutation([a + b + c for a in syllables for b in syllables for c in syllables]).tolist())
common = [next(words) for _ in range(60)]
shared = [[next(words) for _ in range(5)] for _ in range(TOPICS)]
own = [[[next(words) for _ in range(10)] for _ in range(SENSES)] for _ in range(TOPICS)]
about = [(int(rng.integers(TOPICS)), int(rng.integers(SENSES))) for _ in range(DOCUMENTS)]
ages = rng.exponential(size=DOCUMENTS)
texts = []
for topic, sense in about:
    used = rng.permutation(own[topic][sense])[:5].tolist()
    body = rng.choice([*used * 3, *shared[topic] * 2, *common], 40).tolist()
    advertised = int(rng.integers(TOPICS)) if rng.random() < 1 / 2 else topic
    title = [*rng.choice(shared[advertised], 2).tolist(), *rng.choice([*used, *common[:5]], 2).tolist()]
    texts.append((" ".join(title), " ".join(body)))

# Two indexes: full text in SQLite, and vectors by latent semantic analysis.
database = sqlite3.connect(":memory:")
database.execute("CREATE VIRTUAL TABLE documents USING fts5(title, body)")
database.executemany("INSERT INTO documents(rowid, title, body) VALUES (?, ?, ?)", [(i, *text) for i, text in enumerate(texts)])
vocabulary = {word: j for j, word in enumerate(sorted({word for text in texts for word in " ".join(text).split()}))}
counts = np.zeros((DOCUMENTS, len(vocabulary)))
for i, text in enumerate(texts):
    for word in " ".join(text).split():
        counts[i, vocabulary[word]] += 1.0
idf = np.log(DOCUMENTS / (1.0 + (counts > 0.0).sum(axis=0)))
axes = np.linalg.svd(np.log1p(counts) * idf, full_matrices=False)[2][:24].T


def vectors(counts):
    """Vectors of length 1 of rows of counts."""
    found = np.log1p(counts) * idf @ axes
    return found / np.linalg.norm(found, axis=1, keepdims=True)


in_space = vectors(counts)


def search(words):
    """What each retriever returns for the words, best first, with scores."""
    either, lists = " OR ".join(words), {}
    for column in ("title", "body"):
        lists[column] = database.execute(
            "SELECT rowid, -bm25(documents) AS score FROM documents WHERE documents MATCH ? ORDER BY score DESC, rowid LIMIT ?",
            (f"{column} : ({either})", DEPTH),
        ).fetchall()
    cosines = in_space @ vectors(np.array([[float(word in words) for word in vocabulary]]))[0]
    lists["vector"] = [(i, float(cosines[i])) for i in np.argsort(-cosines, kind="stable")[:DEPTH].tolist()]
    found = {i for entries in lists.values() for i, _ in entries}
    lists["newest"] = [(i, -float(ages[i])) for i in sorted(found, key=ages.__getitem__)[:DEPTH]]
    return Runs(lists)


# Today the retrievers are fused by the mean of min-max scores. The learner begins with it, shows lists drawn around what it has
# learned, and learns from the clicks on them. It moves fast here; docs/hybrid.md says what that costs.
ranker = SwapRanker.from_rule("minmax", RETRIEVERS, policy=PlackettLuce(K, seed=0), strength=3.0, wealth=3.0)
model = RunFeatures(RETRIEVERS, parts=("minmax",)) | ranker
today = RunFeatures(RETRIEVERS, parts=("minmax",)) | SwapRanker.from_rule("minmax", RETRIEVERS)  # never learns
who = user("navigational", max_grade=2, seed=0)
for t in range(N):
    topic, sense = int(rng.integers(TOPICS)), int(rng.integers(SENSES))
    asked = [str(rng.choice(shared[topic])), *rng.permutation(own[topic][sense])[: rng.integers(1, 4)].tolist()]
    runs = search(asked)
    grades = {i: 2 if about[i] == (topic, sense) else int(about[i][0] == topic) for i in runs.ids}
    if t % WINDOW == 0:
        learned, fixed = NDCG(k=K), NDCG(k=K)
    learned.update(grades, model.predict_one(runs))
    fixed.update(grades, today.predict_one(runs))
    model.learn_one(runs, who.clicks(model.show_one(runs), grades, t))
    if t % WINDOW == WINDOW - 1:
        print(f"up to query {t + 1:,}, NDCG@10: learned from clicks {learned.get():.3f}, today's fusion {fixed.get():.3f}")

weights = dict(zip(ranker.feature_names, ranker.served_weights.tolist(), strict=True))
total = sum(map(abs, weights.values()))
print("shares of the weights, today 0.25 each:")
for name in RETRIEVERS:
    print(f"  {name:<8} {weights[f'{name} minmax'] / total:+.2f}")
