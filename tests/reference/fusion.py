"""What engines rank by several result lists, from their documented formulas, in exact arithmetic; equal scores as each says.

A query is `{retriever: [(document, score), ...]}`, each list best first. Every function returns the documents, best first.
"""

import re
from fractions import Fraction


def appeared(lists):
    """The documents in the order in which they are met, list by list."""
    return list(dict.fromkeys(document for entries in lists.values() for document, _ in entries))


def by_score(scores, order):
    """Documents by score, equal ones in the given order."""
    return sorted(order, key=lambda document: -scores.get(document, 0))


def rrf_scores(lists, weights, k=60):
    """Sum over lists of weight / (k + rank), ranks from 1; a list without the document adds nothing."""
    scores = {}
    for weight, entries in zip(weights, lists.values(), strict=True):
        for rank, (document, _) in enumerate(entries, start=1):
            scores[document] = scores.get(document, 0) + Fraction(weight) / (Fraction(k) + rank)
    return scores


def langchain(lists, weights, c=60):
    """`EnsembleRetriever`: weighted RRF, equal scores in the order in which the chained lists have them."""
    return by_score(rrf_scores(lists, weights, c), appeared(lists))


def elasticsearch_rrf(lists, weights, k=60):
    """`rrf` retriever: equal scores by the score in the first list that has one of them alone, or different scores of both."""
    scores = rrf_scores(lists, weights, k)
    own = [dict(entries) for entries in lists.values()]
    keys = {d: [-scores[d], *((0, -found[d]) if d in found else (1, 0) for found in own)] for d in scores}
    return sorted(appeared(lists), key=keys.__getitem__)


def minmax(entries, floor=0, constant=1):
    """(s - min) / (max - min); the smallest is `floor`, and equal scores are `constant`."""
    values = [Fraction(score) for _, score in entries]
    low, high = min(values, default=0), max(values, default=0)
    if low == high:
        return {document: Fraction(constant) for document, _ in entries}
    made = {document: (Fraction(score) - low) / (high - low) for document, score in entries}
    return {document: value or Fraction(floor) for document, value in made.items()}


def elasticsearch_linear(lists, weights):
    """`linear` retriever with the normaliser minmax: the weighted sum; a list without the document adds nothing."""
    scores = {}
    for weight, entries in zip(weights, lists.values(), strict=True):
        for document, value in minmax(entries).items():
            scores[document] = scores.get(document, 0) + Fraction(weight) * value
    return by_score(scores, appeared(lists))


def opensearch(lists, weights):
    """`normalization-processor`: min_max, the smallest score 0.001, one result alone 1; weighted mean over all lists."""
    scores = {}
    for weight, entries in zip(weights, lists.values(), strict=True):
        for document, value in minmax(entries, floor=0.001).items():
            scores[document] = scores.get(document, 0) + Fraction(weight) * value / sum(map(Fraction, weights))
    return by_score(scores, appeared(lists))


#: Weights whose products with multiples of 2^-44 are exact, so that equal sums are equal in floating point too.
EXACT_WEIGHTS = (1.0, 2.0, 3.0, 0.5, 0.25)


def random_lists(rng, weights=EXACT_WEIGHTS, distinct=False):
    """A query of one to five lists, some empty, of up to 12 of 15 documents, scores of both signs, often equal; and weights.

    Scores are not on a grid: there min-max scores such as 1/3 + 1/6 and 1/2 are equal, but not in floating point, in engines
    neither.
    """
    lists = {}
    for number in range(int(rng.integers(1, 6))):
        size = int(rng.integers(0, 13))
        scores = rng.normal(size=size)
        if not distinct and rng.random() < 0.5:
            scores = rng.choice(scores[:4], size) if size else scores
        documents = rng.permutation(15)[:size].tolist()
        lists[f"r{number}"] = list(zip(documents, sorted(scores.tolist(), reverse=True), strict=True))
    if rng.random() < 0.5:
        return lists, [1.0] * len(lists)
    return lists, rng.choice(weights, len(lists)).tolist()


#: For each engine: today's rule, arguments of `hybrid`, its own order, and whether it needs different scores within each list.
ENGINES = {
    "LangChain's EnsembleRetriever": ("rrf", {}, langchain, False),
    "Elasticsearch's rrf": ("rrf", {}, elasticsearch_rrf, True),
    "Elasticsearch's linear, minmax": ("minmax", {}, elasticsearch_linear, False),
    "OpenSearch's normalization-processor": ("minmax", {"floor": 0.001}, opensearch, False),
}


def solr_function(lists, text, parameters):
    """`{!func}sum(product(w,scale(query($p,0),0,1)),...)`: scale by the extremes of the whole index, where most score 0."""
    scores = {}
    for weight, name in re.findall(r"product\((-?[\d.e-]+),scale\(query\(\$([\w.]+),0\),0,1\)\)", text):
        entries = lists[parameters.get(name, name)]
        low, high = (side([0.0, *(score for _, score in entries)]) for side in (min, max))
        for document in appeared(lists):
            value = dict(entries).get(document, 0.0)
            scores[document] = scores.get(document, 0.0) + float(weight) * ((value - low) / (high - low) if high > low else 0.0)
    return by_score(scores, appeared(lists))


def vespa_global(lists, text, features):
    """Global phase: normalize_linear, reciprocal_rank over all candidates, 0 where not matched; functions foundN."""
    documents = appeared(lists)
    every = {name: [dict(lists[run]).get(d, 0.0) for d in documents] for name, run in features.items()}
    tests = dict(re.findall(r"function (found\d+)\(\) \{\s*expression: if\((.+?) == 0, 0, 1\)", text))
    scores = dict.fromkeys(documents, 0.0)
    expression = text[text.index("expression {") :]
    for weight, call in re.findall(r"(\(?-?[\d.e-]+\)?) \* (\S[^+}\n]*)", expression):
        if call.strip() in tests:
            column = [float(x != 0.0) for x in every[tests[call.strip()]]]
        else:
            function, inside = re.fullmatch(r"(\w+)\((.*)\)", call.strip()).groups()
            if function == "normalize_linear":
                values = every[inside]
                middle, spread = (min(values) + max(values)) / 2, max(values) - min(values)
                column = [0.5 + ((x - middle) / spread if spread else 0.0) for x in values]
            else:
                inside, k = inside.rsplit(", ", 1)
                values = every[inside]
                places = sorted(range(len(values)), key=lambda i: -values[i])
                column = [1.0 / (float(k) + 1 + places.index(i)) for i in range(len(values))]
        for document, value in zip(documents, column, strict=True):
            scores[document] += float(weight.strip("()")) * value
    return by_score(scores, documents)
