"""Algorithm 1 of [CT], straight from its equations: loops over documents and pairs."""

from tests.reference.perceptron import effective, loss, moved, pair_weights, weights


def learn(
    X, y, w, *, measure="ndcg@10", learning_rate=1.0, margin=1.0, margin_scale="constant", within_grade="mean", weight=1.0
):
    """One round on lists. Returns the new weights, the loss, the mass and the pair weights a_ij of the subgradient."""
    y = effective(measure, y)
    s = [sum(a * b for a, b in zip(x, w, strict=True)) for x in X]
    if len(set(y)) < 2 or (rml := loss(measure, s, y)) <= 1e-15:
        return list(w), 0.0, 0.0, {}
    keys, offset = s, margin
    if margin_scale == "grade":
        keys, offset = [a - margin * r for a, r in zip(s, y, strict=True)], 0.0
    a = pair_weights("argmax", weights(measure, within_grade, s, y), keys, y, offset, strict=True)
    a = {pair: weight * value for pair, value in a.items()}
    return moved(X, w, a, learning_rate), rml, sum(a.values()), a
