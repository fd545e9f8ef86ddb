"""What engines make of exported models, from the documented formats: slow, and without anything of `online_rank.export`."""

import ctypes
import functools
import json
import re
import statistics
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
        for feature, norm, column in zip(body["features"], norms, np.nan_to_num(X).astype(F).T, strict=True)
    }
    if body["class"].endswith("LinearModel"):
        return _added((F(weight) * values[name] for name, weight in body["params"]["weights"].items()), X)

    def parts(node):
        if "value" in node:
            return F(node["value"])
        # RegressionTreeNode.setThreshold adds NODE_SPLIT_SLACK.
        return values[node["feature"]] <= F(node["threshold"]) + F(1e-6), node["left"], node["right"]

    return _added((F(tree["weight"]) * _leaves(tree["root"], parts, len(X)) for tree in body["params"]["trees"]), X)


def plugin(bodies, names, X):
    """The LTR plugin: weights by name, or XGBoost's dump: yes where value < condition. Negative values are refused."""
    (body,) = [body["model"]["model"] for body in bodies.values() if "model" in body]
    definition = json.loads(body["definition"])
    values = dict(zip(names, np.nan_to_num(X).astype(F).T, strict=True))
    if body["type"] == "model/linear":
        assert np.nan_to_num(X).min() >= 0
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


class _Expression:
    """Vespa's ranking expressions: + - * / >= == in, if(), tanh, isNan, attribute(), texts, and functions of the profile.

    Tensors of one dimension are query(), attribute(), literals, their products and sums; query(){label} is a cell, or 0.
    """

    def __init__(self, text):
        tensors = re.compile(r"tensor<float>\(x\[\d+\]\):\[(.*?)\]")
        self.tensors = [np.array([*map(float, one.split(","))]) for one in tensors.findall(text)]
        numbers = iter(range(len(self.tensors)))
        text = tensors.sub(lambda _: f"tensor({next(numbers)})", text)
        self.tokens = re.findall(r'\d[\d.]*(?:e[-+]?\d+)?|[A-Za-z_]\w*|"(?:[^"\\]|\\.)*"|>=|==|[-+*/(),{}\[\]]', text)
        self.place = 0

    def take(self, token=None):
        found = self.tokens[self.place] if self.place < len(self.tokens) else None
        if token is not None and found != token:
            return False
        self.place += 1
        return found

    def parse(self):
        left = self.sum()
        for sign in (">=", "=="):
            if self.take(sign):
                return (sign, left, self.sum())
        if self.take("in"):
            texts, _ = [], self.take("[")
            while not self.take("]"):
                texts.append(json.loads(self.take()))
                self.take(",")
            return ("in", left, texts)
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
        if token[0] == '"':
            return json.loads(token)
        if not self.take("("):
            return ("name", token)
        arguments = [self.parse()]
        while self.take(","):
            arguments.append(self.parse())
        assert self.take(")")
        if token == "tensor":
            return ("array", self.tensors[int(arguments[0])])
        if token == "query" and self.take("{"):
            label = self.take()
            assert self.take("}")
            return ("cell", arguments[0][1], label)
        return ("call", token, *arguments)


class _Painless(_Expression):
    """Expressions of Painless, with parameters, and calls of the functions of a script."""

    def __init__(self, text):
        self.tokens = re.findall(r"\d[\d.]*(?:e[-+]?\d+)?|[A-Za-z_]\w*|>=|!=|[-+*/<(),?:.{}\[\]]", text)
        self.place = 0

    def parse(self):
        condition = super().parse()
        for sign in ("!=", "<"):
            if self.take(sign):
                condition = (sign, condition, self.sum())
        if not self.take("?"):
            return condition
        then = self.parse()
        assert self.take(":")
        return ("call", "if", condition, then, self.parse())

    def unary(self):
        if self.take("Math"):
            assert self.take(".")
        if self.take("Double"):
            assert self.take(".")
            assert self.take("NaN")
            return np.nan
        if self.take("params"):
            assert self.take(".")
            return ("param", self.take())
        if not self.take("new"):
            return super().unary()
        assert [self.take() for _ in range(4)] == ["double", "[", "]", "{"]
        parts = [self.parse()]
        while self.take(","):
            parts.append(self.parse())
        assert self.take("}")
        return ("array", parts)


def _field_of(text, fields):
    """The values of a variable of a script that reads a field."""
    if found := re.fullmatch(r"doc\['(.*?)'\]\.size\(\) == 0 \? (0\.0|Double\.NaN) : doc\['\1'\]\.value", text):
        column = fields[found[1]]
        return np.where(np.isnan(column), 0.0 if found[2] == "0.0" else np.nan, column)
    if found := re.fullmatch(r"doc\['(.*?)'\]\.contains\((?:'(.*)'|(true|false))\) \? 1\.0 : 0\.0", text, re.S):
        wanted = found[3] or re.sub(r"\\(.)", r"\1", found[2], flags=re.S)
        return np.array([wanted in texts for texts in fields[found[1]]], dtype=float)
    found = re.fullmatch(r"doc\['(.*?)'\]\.stream\(\)\.anyMatch\(v -> !\[(.*)\]\.contains\(v\)\) \? 1\.0 : 0\.0", text, re.S)
    others = [re.sub(r"\\(.)", r"\1", other, flags=re.S) for other in re.findall(r"'((?:[^'\\]|\\.)*)'", found[2], re.S)]
    return np.array([any(v not in others for v in texts) for texts in fields[found[1]]], dtype=float)


def _of_parameters(text, params, vectors):
    """The values of a variable of a script that reads a vector or an entry of the context; None for any other."""
    if found := re.fullmatch(r"params\['(.*?)'\] == '(.*)' \? 1\.0 : 0\.0", text):
        return float(params[found[1]] == re.sub(r"\\(.)", r"\1", found[2]))
    if found := re.fullmatch(r"params\['(.*?)'\] == null \? (0\.0|Double\.NaN) : params\['\1'\]", text):
        value = params[found[1]]
        return value if value is not None else 0.0 if found[2] == "0.0" else np.nan
    lacks = r"doc\['(.*?)'\]\.size\(\) == 0 \|\| doc\['\1'\]\.magnitude == 0"
    made = lacks + r"(?: \|\| params\.(\w+) (==|!=) null)? \? (0\.0|Double\.NaN) : "
    found = re.fullmatch(made + r"dotProduct\(params\.(\w+), '\1'\) / doc\['\1'\]\.magnitude", text)
    if found is None:
        return None
    field, asked, sign, missing, name = found.groups()
    D, lacking = vectors[field], 0.0 if missing == "0.0" else np.nan
    if asked and (params[asked] is None) == (sign == "=="):
        return np.full(len(D), lacking)
    with np.errstate(invalid="ignore"):
        values = D @ np.array(params[name]) / np.sqrt((D * D).sum(axis=1))
    return np.where(np.isnan(D[:, 0]) | ~D.any(axis=1), lacking, values)


def painless(body, names, X, vectors=None):
    """The scores of a script; NaN in X is a field that a document lacks. Other scores than Elasticsearch takes are an error.

    Functions of the script are written here by hand, and not run. `vectors` are fields of vectors, (n, k), NaN where one is
    missing.
    """
    script = body["script_score"]["script"]
    assert len(script["source"].encode()) <= 65535
    *statements, last = script["source"][script["source"].index("double x1") :].rstrip(";").split(";\n")
    fields, parsed, known = (
        fields_of(names, X),
        {},
        {"_score": X[:, list(names).index("_score")] if "_score" in names else None},
    )
    for statement in statements:
        name, text = re.fullmatch(r"double (\w+) = (.*)", statement, re.S).groups()
        assert name not in {*parsed, *known}
        if (value := _of_parameters(text, script.get("params", {}), vectors)) is not None:
            known[name] = value
        elif text.startswith("doc"):
            known[name] = _field_of(text, fields)
        else:
            parsed[name] = _Painless(text).parse()
    known["params"] = script.get("params", {})
    score = _Painless(re.fullmatch(r"return (.*)", last)[1]).parse()
    found = np.zeros(len(X)) + _values(score, parsed, fields, known)
    assert (found >= 0.0).all()
    return found


def _script_curve(x, points, missing):
    u, y, slopes = map(np.array, (points["u"], points["y"], points["slopes"]))
    at = np.clip(np.searchsorted(u, x, side="right") - 1, 0, len(u) - 1)
    inside = y[at] + (x - u[at]) * np.append(slopes, 0.0)[at]
    return np.where(np.isnan(x), missing, np.where(x <= u[0], y[0], np.where(x >= u[-1], y[-1], inside)))


def _script_trees(columns, t):
    scores = np.zeros(len(columns[0]))
    for i, x in enumerate(zip(*columns, strict=True)):
        for node in t["starts"]:
            while t["columns"][node] >= 0:
                node = t["right" if x[t["columns"][node]] >= t["thresholds"][node] else "left"][node]
            scores[i] += t["values"][node]
    return scores


def fields_of(names, X):
    """The fields of documents: columns of numbers, NaN for missing ones; of columns "field=level" lists of texts."""
    fields = {}
    for name, column in zip(names, np.array(X, float).T, strict=True):
        field, is_level, level = name.partition("=")
        if not is_level:
            fields[name] = column
            continue
        texts = fields.setdefault(field, [[] for _ in column])
        for own, has in zip(texts, column, strict=True):
            own += [level] if has == 1.0 else []
    return fields


def _values(node, functions, fields, known=None):
    """The values of an expression for all documents, given their fields."""

    def value(node):
        if isinstance(node, float):
            return node
        kind, *parts = node
        if kind == "name":
            if parts[0] not in known:
                known[parts[0]] = value(functions[parts[0]])
            return known[parts[0]]
        if kind == "param":
            return known["params"][parts[0]]
        if kind == "array":
            return parts[0] if isinstance(parts[0], np.ndarray) else [value(part) for part in parts[0]]
        if kind == "cell":
            return known["inputs"].get(parts[0], {}).get(parts[1], 0.0)
        if kind == "call":
            function, *arguments = parts
            if function == "attribute":
                return fields[arguments[0][1]]
            if function == "query":
                # An input that is not sent is 0.
                return np.array(known["inputs"].get(arguments[0][1], 0.0))
            if function == "sum":
                return value(arguments[0]).sum(axis=-1)
            if function == "if":
                return np.where(*map(value, arguments))
            called = {"curve": _script_curve, "trees": _script_trees, "tanh": np.tanh, "isNan": np.isnan, "sqrt": np.sqrt}
            return called[function](*map(value, arguments))
        a, b = value(parts[0]), parts[1]
        if isinstance(a, list):
            # An attribute of texts has one value, and is empty if it is missing; booleans are numbers.
            texts = [(own or [""])[0] for own in a]
            if isinstance(b, list):
                return np.array([text in b for text in texts])
            return np.array([text == b if isinstance(b, str) else float(text == "true") == b for text in texts])
        operations = {
            "+": np.add, "-": np.subtract, "*": np.multiply, ">=": np.greater_equal, "<": np.less, "==": np.equal,
            "!=": np.not_equal, "/": np.divide,
        }  # fmt: skip
        return operations[kind](a, value(b))

    known = {} if known is None else known
    # Both branches of an if are computed, also where the other is taken.
    with np.errstate(all="ignore"):
        return value(node)


def vespa(text, names, X, vectors=None, inputs=None):
    """A rank profile; NaN in X is an attribute that a document lacks. A vector that is missing is 0 everywhere.

    `vectors` are attributes (n, k), NaN where one is missing; `inputs` are the inputs of the query.
    """
    functions = dict(re.findall(r"function (\w+)\(\) \{\s*expression \{(.*?)\n\s*\}\s*\}", text, re.S))
    parsed = {name: _Expression(body).parse() for name, body in functions.items()}
    (score,) = re.findall(r"first-phase \{\s*expression \{(.*?)\n\s*\}\s*\}", text, re.S)
    fields = fields_of(names, X) | {field: np.nan_to_num(D) for field, D in (vectors or {}).items()}
    return np.zeros(len(X)) + _values(_Expression(score).parse(), parsed, fields, {"inputs": inputs or {}})


def select(text, names, X, database):
    """A query of an SQL database, which an empty `database` has no tables of yet; NaN in X is NULL or NaN, in turn."""
    fields = fields_of(names, X)
    kinds = ["DOUBLE PRECISION" if isinstance(column, np.ndarray) else "VARCHAR(99)" for column in fields.values()]
    columns = ", ".join(f'"{name}" {kind}' for name, kind in zip(fields, kinds, strict=True))
    database.execute(f'CREATE TABLE online_rank ("query" INT, doc INT, {columns})')
    rows = []
    for query in (1, 2):  # The documents of another query change nothing.
        for i in range(len(X) if query == 1 else len(X) // 2):
            values = [float(one[i]) if isinstance(one, np.ndarray) else (one[i] or [None])[0] for one in fields.values()]
            missing = None if i % 2 else float("nan")
            rows.append((query, i, *(missing if value != value else value for value in values)))
    places = ", ".join("?" * len(rows[0]))
    database.executemany(f"INSERT INTO online_rank VALUES ({places})", rows)
    found = dict(database.execute(f'SELECT doc, score FROM ({text}) AS scored WHERE "query" = 1').fetchall())
    return np.array([found[i] for i in range(len(X))])


def c(header, name, X, folder):
    """The scores of the documents X of one query."""
    return compiled(header, name, X.shape[1], folder)(X)


def compiled(header, name, d, folder):
    """A header compiled with warnings as errors, as a function of the documents of one query."""
    folder = Path(tempfile.mkdtemp(dir=folder))  # A library is loaded once from each place.
    (folder / "model.h").write_text(header)
    scores = f"{name}_scores(x, n, s)" if f"{name}_scores(" in header else None
    one = f"{name}_score(x + i * {d})" if f"{name}_score(" in header else None
    body = f"return {scores};" if scores else f"for (int i = 0; i < n; ++i) s[i] = {one}; return 0;"
    if scores and one:
        body = f"int r = {scores}; for (int i = 0; i < n; ++i) if (s[i] != {one}) r = 9; return r;"
    (folder / "model.c").write_text(f'#include "model.h"\nint run(const double *x, int n, double *s) {{ {body} }}\n')
    options = ["-std=c99", "-Wall", "-Wextra", "-Wno-unused-variable", "-Werror", "-ffp-contract=off", "-shared", "-fPIC"]
    library = folder / "model.so"
    subprocess.run(["cc", *options, "-o", library, folder / "model.c", "-lm"], check=True)
    run, pointer = ctypes.CDLL(str(library)).run, ctypes.POINTER(ctypes.c_double)

    def scores_of(X):
        X, found = np.ascontiguousarray(X, float), np.empty(len(X))
        assert run(X.ctypes.data_as(pointer), len(X), found.ctypes.data_as(pointer)) == 0
        return found

    return scores_of


def onnx(data, X):
    """onnxruntime."""
    return _session(data).run(["scores"], {"features": np.asarray(X, float)})[0]


@functools.lru_cache(maxsize=1)
def _session(data):
    import onnxruntime

    return onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])


def lightgbm(text, X):
    """LightGBM."""
    return _lightgbm(text).predict(X, raw_score=True)


def xgboost(data, X):
    """XGBoost."""
    import xgboost

    booster = _xgboost(data)
    return booster.predict(xgboost.DMatrix(X, feature_names=booster.feature_names), output_margin=True).astype(float)


@functools.lru_cache(maxsize=1)
def _lightgbm(text):
    import lightgbm

    return lightgbm.Booster(model_str=text)


@functools.lru_cache(maxsize=1)
def _xgboost(data):
    import xgboost

    return xgboost.Booster(model_file=bytearray(data.encode()))


def plain(body, X):
    """JSON: weights, or layers and a head."""
    if "weights" in body:
        return np.array([body["constant"] + sum(w * x for w, x in zip(body["weights"], row, strict=True)) for row in X])
    return _scores(body, np.asarray(X, float).tolist())


def _scores(form, rows):
    for layer in form["layers"]:
        rows = _LAYERS[layer["kind"]](layer, rows)
    return np.array(_HEADS[form["head"]["kind"]](form["head"], rows))


def _curve(x, curve, missing):
    if x != x and missing is not None:
        return missing
    xs, ys = curve
    if x <= xs[0]:
        return ys[0]
    for k in range(len(xs) - 1):
        if x <= xs[k + 1]:
            return ys[k] + (ys[k + 1] - ys[k]) * (x - xs[k]) / (xs[k + 1] - xs[k])
    return ys[-1]


def _normal_ranks(column):
    known = [x for x in column if x == x]
    ranks = [(sum(y < x for y in known) + sum(y <= x for y in known)) / (2 * len(known)) if x == x else x for x in column]
    return [statistics.NormalDist().inv_cdf(p) if p == p else p for p in ranks]


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
    if layer["how"] == "ranks":
        made = [
            _normal_ranks(columns[j]) if ranked else columns[j]
            for j, ranked in zip(layer["sources"], layer["relative"], strict=True)
        ]
        return list(map(list, zip(*made, strict=True)))
    made = [
        _relative(layer["how"], columns[j], layer["soft"], centred) if relative else columns[j]
        for j, relative, centred in zip(
            layer["sources"], layer["relative"], layer["centred"] or [True] * len(layer["sources"]), strict=True
        )
    ]
    return list(map(list, zip(*made, strict=True)))


def _crossed(layer, rows):
    made = []
    for row in rows:
        own = []
        for j, factor, only in zip(layer["sources"], layer["factors"], layer["only"], strict=True):
            by = 1.0 if factor < 0 else row[factor]
            own.append(float("nan") if only and by == 0.0 else row[j] * by)
        made.append(own)
    return made


_LAYERS = {
    "Crossed": _crossed,
    "Take": lambda layer, rows: [[row[j] if j >= 0 else 0.0 for j in layer["columns"]] for row in rows],
    "Scale": lambda layer, rows: [
        [(x - m) * f for x, m, f in zip(row, layer["means"], layer["factors"], strict=True)] for row in rows
    ],
    "Curves": lambda layer, rows: [
        [
            _curve(row[j], curve, missing)
            for j, curve, missing in zip(
                layer["sources"], layer["knots"], layer["missing"] or [None] * len(layer["knots"]), strict=True
            )
        ]
        for row in rows
    ],
    "InQuery": _in_query,
}


def _tree(tree, row):
    n = 0
    while tree["columns"][n] >= 0:
        n = tree["right" if row[tree["columns"][n]] >= tree["thresholds"][n] else "left"][n]
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


@functools.lru_cache(maxsize=1)
def _parsed(content):
    return json.loads(content)


def scores(to, content, names, X, folder, name="model"):
    """The scores that a target gives to the documents X of one query, with features called `names`."""
    if to == "solr":
        return solr(_parsed(content), X)
    if to in ("elasticsearch", "opensearch"):
        return plugin(_parsed(content), names, X)
    if to == "vespa":
        return vespa(content, names, X)
    if to == "c":
        return c(content, name, X, folder)
    if to == "json":
        return plain(_parsed(content), X)
    if to == "painless":
        shown = painless(_parsed(content), names, X)
        return np.where(shown >= 1.0, shown - 1.0, 1.0 - 1.0 / np.where(shown > 0.0, shown, 1.0))
    if to == "duckdb":
        import duckdb

        return select(content.replace(f'"{name}"', '"online_rank"'), names, X, duckdb.connect())
    if to == "duckdb-tables":
        import duckdb

        database = duckdb.connect()
        database.execute(content)
        return select(f"FROM \"{name}\"('online_rank')", names, X, database)
    return {"onnx": onnx, "lightgbm": lightgbm, "xgboost": xgboost}[to](content, X)
