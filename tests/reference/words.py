"""Words in plain Python: a dict of weights and precisions, and the filter straight from its equations."""

import math


class SlowWords:
    """Weights and precisions of words, prior precision 10; of the scores next to them a, prior precision 1, beginning at .3."""

    def __init__(self):
        self.words, self.slope, self.sure, self.clock = {}, 0.3, 0.0, 0.0

    def learn(self, documents, own, targets, weight, half_lives, order):
        """Learn documents, each `{word: value}`, by scores `own` over their scale and standardised grades."""
        m = len(documents)
        self.clock += half_lives
        self.sure *= 2.0**-half_lives
        for document in documents:
            for word in document:
                w, q, n, last = self.words.get(word, (0.0, 0.0, 0.0, self.clock))
                left = 2.0 ** (last - self.clock)
                self.words[word] = w, q * left, n * left + 1.0 / m, self.clock
        mean = sum(self.score(x, c) for x, c in zip(documents, own, strict=True)) / m
        for i in order:
            self._learn_one(documents[i], own[i], targets[i] - (self.score(documents[i], own[i]) - mean), weight)

    def score(self, document, c):
        """a c + sum of w x."""
        return self.slope * c + sum(self.words[word][0] * x for word, x in document.items())

    def _learn_one(self, document, c, error, weight):
        v = {word: 1.0 / (10.0 + self.words[word][1]) for word in document}
        u = 1.0 / (1.0 + self.sure)
        S = 1.0 / weight + u * c * c + sum(v[word] * x * x for word, x in document.items())
        self.slope += u * c * error / S
        self.sure += c * c / (S - u * c * c)
        for word, x in document.items():
            w, q, n, last = self.words[word]
            self.words[word] = w + v[word] * x * error / S, q + x * x / (S - v[word] * x * x), n, last


def rarity(n, count):
    """ln(1 + N / (n + .5))."""
    return math.log(1.0 + n / (count + 0.5))
