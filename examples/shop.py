"""A shop learns to rank from its click log, and lets live traffic decide. Run: python examples/shop.py [LISTS]

2,000 products, 400 queries with Zipf frequencies, three kinds of users, and a log of 28,000 lists of two rankers. After each
step NDCG@10 on the true grades, which only the simulation knows, is printed: no step makes it worse without saying so.
"""

import csv
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from online_rank import Impression, PlackettLuce, SwapRanker, load
from online_rank.cli import main
from online_rank.metrics import NDCG
from online_rank.serving import Challenge, RankingService
from online_rank.stream.clicks import user

LISTS = int(sys.argv[1]) if len(sys.argv) > 1 else 28_000
PRODUCTS, QUERIES, CANDIDATES, K = 2000, 400, 14, 10
FEATURES = ("bm25", "vector", "price", "stars", "age")

# The shop. What a customer wants is a product that matches, has stars, and is not dear.
rng = np.random.default_rng(7)
about, wanted = rng.normal(size=(PRODUCTS, 8)), rng.normal(size=(QUERIES, 8))
price, stars, age = rng.lognormal(1.0, 0.8, PRODUCTS), rng.normal(3.5, 0.8, PRODUCTS).clip(1, 5), rng.exponential(200, PRODUCTS)
often = 1.0 / np.arange(1, QUERIES + 1)
often /= often.sum()
found, grades = [], []
for q in range(QUERIES):
    match = about @ wanted[q] / np.sqrt(8)
    products = np.argsort(-match + 0.8 * rng.normal(size=PRODUCTS))[:CANDIDATES]
    near = match[products]
    noisy = near[:, None] + 0.7 * rng.normal(size=(CANDIDATES, 2))
    rows = np.column_stack([noisy, price[products], stars[products], age[products]]).round(4).tolist()
    found.append({f"p{product}": dict(zip(FEATURES, row, strict=True)) for product, row in zip(products, rows, strict=True)})
    useful = 1.2 * near + 0.8 * stars[products] - 0.7 * np.log(price[products]) + 0.4 * rng.normal(size=CANDIDATES)
    grades.append(dict(zip(found[q], np.digitize(useful, np.quantile(useful, [0.5, 0.7, 0.85, 0.95])).tolist(), strict=True)))
users = [user(kind, max_grade=4, seed=seed) for seed, kind in enumerate(("position", "navigational", "trust"))]


def quality(rank):
    """The expected NDCG@10 of lists, on the true grades."""
    total = 0.0
    for q, weight in enumerate(often):
        value, order = NDCG(k=K), rank(found[q])
        value.update(grades[q], {product: -float(order.index(product)) if product in order else -1e9 for product in found[q]})
        total += weight * value.get()
    return total


def shown_by(model):
    """What a model really shows: the list that it draws, or its best documents."""
    return lambda x: [*model.show_one(x).order]


# Today products are ranked by a formula, of which there are two versions on alternate days.
def today(x, version=0):
    """The ranking of one of the versions."""
    weights = ({"bm25": 1.0, "stars": 0.3}, {"bm25": 1.0, "vector": 0.3, "age": -0.002})[version]
    return sorted(x, key=lambda product: -sum(w * x[product][name] for name, w in weights.items()))


print(f"NDCG@10 of today's two rankings: {quality(today):.3f} and {quality(lambda x: today(x, 1)):.3f}")

# The log: what was shown, and clicked.
folder = Path(tempfile.mkdtemp())
with (folder / "log.csv").open("w", newline="") as file:
    log = csv.writer(file)
    log.writerow(("query", "document", "position", "click", "purchase", "topic", *FEATURES))
    for t in range(LISTS):
        q = int(rng.choice(QUERIES, p=often))
        order = today(found[q], t // 50 % 2)[:K]
        clicks = users[t % 3].clicks(Impression(order), grades[q], t)
        gains = dict(zip(order, clicks.gains, strict=True))
        for product, features in found[q].items():
            place = order.index(product) + 1 if product in order else ""
            bought = gains.get(product, 0.0) and rng.random() < 0.3
            log.writerow((t, product, place, gains.get(product, 0.0), int(bought), f"query {q}", *features.values()))


def run(*arguments):
    """Run a command as in a shell; its exit status."""
    try:
        main([*arguments])
    except SystemExit as ended:
        return ended.code


# Someone says that these lists were in random order. They were not, and the command says so.
print("\n$ online-rank train log.csv --clicks shuffled")
status = run("train", str(folder / "log.csv"), "--clicks", "shuffled", "--exclude", "topic", "--save", str(folder / "wrong"))
print(f"exit status {status}, saved: {(folder / 'wrong').exists()}")

# Products moved, because the two rankings differ: that tells how often positions are looked at. The purchases are no feature.
print("\n$ online-rank train log.csv --clicks moved --topic topic --save model")
run("train", str(folder / "log.csv"), "--clicks", "moved", "--topic", "topic", "--save", str(folder / "model"))
model = load(folder / "model")
print(f"NDCG@10 of the model: {quality(model.rank_one):.3f}, and of the lists that it shows {quality(shown_by(model)):.3f}")

# The log cannot tell whether this is better: live traffic does. Today's ranking serves, and learns from clicks on its lists.
serving = SwapRanker.from_weights({"bm25": 1.0, "stars": 0.3}, policy=PlackettLuce(k=K, seed=1))
service = RankingService(serving, challenge=Challenge(model, promote_at=0.95))


def customer(t):
    """The visit of a customer: a ranking, and clicks on it. The reply to the clicks."""
    q = int(rng.choice(QUERIES, p=often))
    answer = service.handle(json.dumps({"id": t, "docs": found[q]}).encode()).answer
    order = answer["ranking"][: answer["shown"]]
    gains = users[t % 3].clicks(Impression(order), grades[q], LISTS + t).gains
    clicked = [product for product, gain in zip(order, gains, strict=True) if gain]
    return service.handle(json.dumps({"id": t, "clicks": clicked}).encode())


print(f"\nNDCG@10 of the lists of today's ranking, with draws that it learns from: {quality(shown_by(serving)):.3f}")
for t in range(10_000):
    if promoted := customer(t).promoted:
        print(f"after {t + 1:,} live lists {promoted}")
        break
print(f"NDCG@10 of the lists shown until now: {quality(shown_by(serving)):.3f}")
print(f"NDCG@10 of the lists shown from now on: {quality(shown_by(service.model)):.3f}")
for u in range(3000):
    customer(t + 1 + u)
print(f"NDCG@10 of the lists shown after 3,000 further ones: {quality(shown_by(service.model)):.3f}")
