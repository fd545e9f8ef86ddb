"""What engines make of exported models, from the documented formats: slow, and without anything of `online_rank.export`."""

import ctypes
import functools
import json
import re
import subprocess
import tempfile
from pathlib import Path

import numpy as np

F = np.float32


def solr(body, X):
    """Solr: features are floats; a linear model adds up weight times value, trees go left where value <= threshold."""
    norms = [feature.get("norm", {"params": {"avg": "0", "std": "1"}})["params"] for feature in body["features"]]
    values = {
        feature["name"]: (column - F(norm["avg"])) / F(norm["std"])
        for feature, norm, column in zip(body["features"], norms, X.astype(F).T, strict=True)
    }
    if body["class"].endswith("LinearModel"):
        return _added((F(weight) * values[name] for name, weight in body["params"]["weights"].items()), X)

    def parts(node):
        if "value" in node:
            return F(node["value"])
        return values[node["feature"]] <= F(node["threshold"]), node["left"], node["right"]

    return _added((F(tree["weight"]) * _leaves(tree["root"], parts, len(X)) for tree in body["params"]["trees"]), X)


def plugin(bodies, names, X):
    """The LTR plugin: weights by name, or XGBoost's dump: yes where value < condition. Negative values are refused."""
    (body,) = [body["model"]["model"] for body in bodies.values() if "model" in body]
    definition = json.loads(body["definition"])
    values = dict(zip(names, X.astype(F).T, strict=True))
    if body["type"] == "model/linear":
        if X.min() < 0:
            raise ValueError("negative")
        return _added((F(weight) * values[name] for name, weight in definition.items()), X)

    def parts(node):
        if "leaf" in node:
            return F(node["leaf"])
        yes, no = ([child for child in node["children"] if child["nodeid"] == node[way]] for way in ("yes", "no"))
        return values[node["split"]] < F(node["split_condition"]), *yes, *no

    return _added((_leaves(tree, parts, len(X)) for tree in definition), X)


def _leaves(node, parts, n):
    """The leaf of each of n documents, in single precision: `parts` gives a leaf, or who goes to the first child, and both."""
    found = np.empty(n, F)

    def go(node, rows):
        here = parts(node)
        if isinstance(here, F):
            found[rows] = here
        else:
            goes, first, second = here
            go(first, rows[goes[rows]])
            go(second, rows[~goes[rows]])

    go(node, np.arange(n))
    return found


def _added(terms, X):
    """The sum of terms (n,), one after the other, in single precision."""
    total = np.zeros(len(X), F)
    for term in terms:
        total += term
    return total.astype(float)


def ranklib(text, X):
    """RankLib's linear model: feature 0 is the constant."""
    (line,) = [line for line in text.splitlines() if not line.startswith("#")]
    weights = {int(n): float(w) for n, w in (pair.split(":") for pair in line.split())}
    return np.array([weights[0] + sum(weights[j + 1] * x for j, x in enumerate(row)) for row in X])


class _Expression:
    """Vespa's ranking expressions: + - * / < == , if(), log, sqrt, tanh, isNan, attribute(), and functions of the profile."""

    def __init__(self, text):
        self.tokens = re.findall(r"\d[\d.]*(?:e[-+]?\d+)?|[A-Za-z_]\w*|==|[-+*/<(),]", text)
        self.place = 0

    def take(self, token=None):
        found = self.tokens[self.place] if self.place < len(self.tokens) else None
        if token is not None and found != token:
            return False
        self.place += 1
        return found

    def parse(self):
        left = self.sum()
        for sign in ("<", "=="):
            if self.take(sign):
                return (sign, left, self.sum())
        return left

    def sum(self):
        left = self.product()
        while True:
            if self.take("+"):
                left = ("+", left, self.product())
            elif self.take("-"):
                left = ("-", left, self.product())
            else:
                return left

    def product(self):
        left = self.unary()
        while True:
            if self.take("*"):
                left = ("*", left, self.unary())
            elif self.take("/"):
                left = ("/", left, self.unary())
            else:
                return left

    def unary(self):
        if self.take("-"):
            return ("-", 0.0, self.unary())
        if self.take("("):
            inner = self.parse()
            assert self.take(")")
            return inner
        token = self.take()
        if token[0].isdigit():
            return float(token)
        if not self.take("("):
            return ("name", token)
        arguments = [self.parse()]
        while self.take(","):
            arguments.append(self.parse())
        assert self.take(")")
        return ("call", token, *arguments)


class _Painless(_Expression):
    """Expressions of Painless, with doc['field'].size(), doc['field'].value and Math's functions."""

    def __init__(self, text):
        self.tokens = re.findall(r"\d[\d.]*(?:e[-+]?\d+)?|[A-Za-z_]\w*|'[^']*'|==|[-+*/<(),?:.\[\]]", text)
        self.place = 0

    def parse(self):
        condition = super().parse()
        if not self.take("?"):
            return condition
        then = self.parse()
        assert self.take(":")
        return ("call", "if", condition, then, self.parse())

    def unary(self):
        if self.take("Math"):
            assert self.take(".")
        if not self.take("doc"):
            return super().unary()
        assert self.take("[")
        field = ("call", "attribute", ("name", self.take().strip("'")))
        assert self.take("]")
        assert self.take(".")
        if self.take("value"):
            return field
        assert [self.take(), self.take(), self.take()] == ["size", "(", ")"]
        return ("-", 1.0, ("call", "isNan", field))


def painless(body, names, X):
    """The scores of a script; NaN in X is a field that a document lacks. Other scores than Elasticsearch takes are an error."""
    script = body["script_score"]["script"]["source"]
    *statements, last = script.rstrip(";").split(";\n")
    parsed = {}
    for statement in statements:
        name, text = re.fullmatch(r"double (\w+) = (.*)", statement).groups()
        assert name not in parsed
        parsed[name] = _Painless(text).parse()
    columns = dict(zip(names, np.array(X, float).T, strict=True))
    found = np.zeros(len(X)) + _values(_Painless(re.fullmatch(r"return (.*)", last)[1]).parse(), parsed, columns)
    assert (found >= 0.0).all()
    return found


def _values(node, functions, columns):
    """The values of an expression for all documents, given their attributes (n,)."""

    def value(node):
        if isinstance(node, float):
            return node
        kind, *parts = node
        if kind == "name":
            if parts[0] not in known:
                known[parts[0]] = value(functions[parts[0]])
            return known[parts[0]]
        if kind == "call":
            function, *arguments = parts
            if function == "attribute":
                return columns[arguments[0][1]]
            if function == "if":
                return np.where(*map(value, arguments))
            return {"log": np.log, "sqrt": np.sqrt, "tanh": np.tanh, "isNan": np.isnan}[function](value(arguments[0]))
        a, b = map(value, parts)
        return {"+": np.add, "-": np.subtract, "*": np.multiply, "<": np.less, "==": np.equal, "/": np.divide}[kind](a, b)

    known = {}
    # Both branches of an if are computed, also where the other is taken.
    with np.errstate(all="ignore"):
        return value(node)


def vespa(text, names, X):
    """A rank profile; NaN in X is an attribute that a document lacks."""
    functions = dict(re.findall(r"function (\w+)\(\) \{\s*expression \{(.*?)\n\s*\}\s*\}", text, re.S))
    parsed = {name: _Expression(body).parse() for name, body in functions.items()}
    (score,) = re.findall(r"first-phase \{\s*expression \{(.*?)\n\s*\}\s*\}", text, re.S)
    score = _Expression(score).parse()
    columns = dict(zip(names, np.array(X, float).T, strict=True))
    return np.zeros(len(X)) + _values(score, parsed, columns)


def c(header, name, X, folder):
    """Compiles a header with warnings as errors; the scores of the documents X of one query."""
    folder = Path(tempfile.mkdtemp(dir=folder))  # A library is loaded once from each place.
    (folder / "model.h").write_text(header)
    scores = f"{name}_scores(x, n, s)" if f"{name}_scores(" in header else None
    one = f"{name}_score(x + i * {X.shape[1]})" if f"{name}_score(" in header else None
    body = f"return {scores};" if scores else f"for (int i = 0; i < n; ++i) s[i] = {one}; return 0;"
    if scores and one:
        body = f"int r = {scores}; for (int i = 0; i < n; ++i) if (s[i] != {one}) r = 9; return r;"
    (folder / "model.c").write_text(f'#include "model.h"\nint run(const double *x, int n, double *s) {{ {body} }}\n')
    options = ["-std=c99", "-Wall", "-Wextra", "-Wno-unused-variable", "-Werror", "-ffp-contract=off", "-shared", "-fPIC"]
    library = folder / "model.so"
    subprocess.run(["cc", *options, "-o", library, folder / "model.c", "-lm"], check=True)
    run = ctypes.CDLL(str(library)).run
    X, found = np.ascontiguousarray(X, float), np.empty(len(X))
    pointer = ctypes.POINTER(ctypes.c_double)
    assert run(X.ctypes.data_as(pointer), len(X), found.ctypes.data_as(pointer)) == 0
    return found


def onnx(data, X):
    """onnxruntime."""
    return _session(data).run(["scores"], {"features": np.asarray(X, float)})[0]


@functools.lru_cache(maxsize=1)
def _session(data):
    import onnxruntime

    return onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])


def lightgbm(text, X):
    """LightGBM."""
    import lightgbm

    return lightgbm.Booster(model_str=text).predict(X, raw_score=True)


def xgboost(data, X):
    """XGBoost."""
    import xgboost

    booster = xgboost.Booster(model_file=bytearray(data.encode()))
    return booster.predict(xgboost.DMatrix(X, feature_names=booster.feature_names), output_margin=True).astype(float)


def plain(body, X):
    """JSON: weights, or layers and a head."""
    if "weights" in body:
        return np.array([body["constant"] + sum(w * x for w, x in zip(body["weights"], row, strict=True)) for row in X])
    return _scores(body, np.asarray(X, float).tolist())


def _scores(form, rows):
    for layer in form["layers"]:
        rows = _LAYERS[layer["kind"]](layer, rows)
    return np.array(_HEADS[form["head"]["kind"]](form["head"], rows))


def _curve(x, curve):
    xs, ys = curve
    if x <= xs[0]:
        return ys[0]
    for k in range(len(xs) - 1):
        if x <= xs[k + 1]:
            return ys[k] + (ys[k + 1] - ys[k]) * (x - xs[k]) / (xs[k + 1] - xs[k])
    return ys[-1]


def _relative(how, column, soft, centred=True):
    low, high, n = min(column), max(column), len(column)
    if low == high:
        return [0.0] * n
    if how == "minmax":
        return [(x - low) / (high - low) for x in column]
    mean = sum(column) / n
    start = mean if centred else 0.0
    deviation = (sum((x - mean) ** 2 for x in column) / n) ** 0.5
    return [(x - start) / (deviation + soft) for x in column]


def _in_query(layer, rows):
    columns = list(map(list, zip(*rows, strict=True)))
    made = [
        _relative(layer["how"], columns[j], layer["soft"], centred) if relative else columns[j]
        for j, relative, centred in zip(
            layer["sources"], layer["relative"], layer["centred"] or [True] * len(layer["sources"]), strict=True
        )
    ]
    return list(map(list, zip(*made, strict=True)))


_LAYERS = {
    "Take": lambda layer, rows: [[row[j] if j >= 0 else 0.0 for j in layer["columns"]] for row in rows],
    "Scale": lambda layer, rows: [
        [(x - m) * f for x, m, f in zip(row, layer["means"], layer["factors"], strict=True)] for row in rows
    ],
    "Curves": lambda layer, rows: [
        [row[j] if curve is None else _curve(row[j], curve) for j, curve in zip(layer["sources"], layer["knots"], strict=True)]
        for row in rows
    ],
    "InQuery": _in_query,
}


def _tree(tree, row):
    n = 0
    while tree["columns"][n] >= 0:
        n = tree["left" if row[tree["columns"][n]] < tree["thresholds"][n] else "right"][n]
    return tree["values"][n]


def _network(head, rows):
    for weights, biases in head["layers"]:
        rows = np.array(rows) @ np.array(weights) + np.array(biases)
        rows = np.tanh(rows) if head["activation"] == "tanh" else np.maximum(rows, 0.0)
    return (np.array(rows) @ np.array(head["output"])).tolist()


def _blend(head, rows):
    parts = [_scores(form, rows).tolist() for form in head["forms"]]
    return [sum(w * s for w, s in zip(head["weights"], scores, strict=True)) for scores in zip(*parts, strict=True)]


_HEADS = {
    "Linear": lambda head, rows: [sum(w * x for w, x in zip(head["weights"], row, strict=True)) for row in rows],
    "Trees": lambda head, rows: [sum(_tree(tree, row) for tree in head["trees"]) for row in rows],
    "Network": _network,
    "Blend": _blend,
}


def scores(to, content, names, X, folder, name="model"):
    """The scores that a target gives to the documents X of one query, with features called `names`."""
    if to in ("solr", "solr-normalized"):
        return solr(json.loads(content), X)
    if to in ("elasticsearch", "opensearch"):
        return plugin(json.loads(content), names, X)
    if to == "vespa":
        return vespa(content, names, X)
    if to == "c":
        return c(content, name, X, folder)
    if to == "json":
        return plain(json.loads(content), X)
    return {"onnx": onnx, "lightgbm": lightgbm, "xgboost": xgboost, "ranklib": ranklib}[to](content, X)
