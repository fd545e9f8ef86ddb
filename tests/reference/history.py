"""The features of `History` in plain loops over all impressions so far: nothing is summed ahead, nothing decays in place."""


class Impressions:
    """All impressions: key, time, weight times examination, and weight times engagement of each."""

    def __init__(self, half_life, prior, examination=(1.0,)):
        self.half_life, self.prior, self.examination = half_life, prior, examination
        self.all = []

    def learn(self, keys, gains, places, at, w=1.0):
        """Count the documents of a query that were shown; a place of None counts as examined."""
        for key, gain, place in zip(keys, gains, places, strict=True):
            theta = 1.0 if place is None else self.examination[min(place, len(self.examination) - 1)]
            if theta > 0.0 or gain > 0.0:
                self.all.append((key, at, w * theta, w * gain))

    def _sums(self, at, key=None):
        left = [(2.0 ** (-(at - t) / self.half_life), n, e) for k, t, n, e in self.all if key is None or k == key]
        return sum(f * n for f, n, _ in left), sum(f * e for f, _, e in left)

    def features(self, key, at):
        """Impressions, rate and age of a key."""
        n, engaged = (0.0, 0.0) if key is None else self._sums(at, key)
        every, engaged_of_all = self._sums(at)
        overall = engaged_of_all / every if every else 0.0
        first = min((t for k, t, _, _ in self.all if k == key and key is not None), default=at)
        return [n, (engaged + self.prior * overall) / (n + self.prior), max(at - first, 0.0)]
