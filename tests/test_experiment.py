"""Experiments: what is measured, compared, kept in files, continued and repeated."""

import json
import math
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from online_rank import GradientRanker, PerceptronRanker, RidgeRanker, StreamScaler, SwapRanker, evaluate, metrics, plot
from online_rank.evaluate import ClickStudy, Experiment, Retrained, Spread, read_results
from online_rank.intervals import PairedLosses, mean_interval
from online_rank.metrics import OffPolicyValue
from online_rank.stream.clicks import user
from online_rank.stream.synth import NoisyTeacher

MODELS = {"average": lambda seed: PerceptronRanker(), "last": lambda seed: PerceptronRanker(half_life=0)}


def stream(seed, n=60):
    return NoisyTeacher(n_queries=n, n_features=4, n_documents=6, seed=seed)


def by_hand(make, seed, kind=metrics.NDCG, k=10):
    """A metric of each query, tested before it is learned."""
    model, metric, values = make(seed), kind(k=k), []
    for X, y in stream(seed):
        values.append(metric.value_one(y, model.predict_one(X)))
        model.learn_one(X, y)
    return np.array(values)


def test_the_students_experiment():
    lightgbm = pytest.importorskip("lightgbm")
    # In 20 lines: five baselines, an own loss and an own measure, over seeds, by two metrics, on two streams.
    from river import linear_model

    from online_rank import PointwiseRanker

    def err_loss(ranked):
        gains = (2.0**ranked - 1.0) / 2.0 ** ranked.max()
        err = [float((g * np.cumprod(np.append(1.0, 1.0 - g))[:-1] / np.arange(1.0, len(g) + 1.0)).sum())
               for g in (gains, np.sort(gains)[::-1])]  # fmt: skip
        return 1.0 - err[0] / err[1]

    def half_squares(s, y):
        return 0.5 * ((s - y) ** 2).sum(), s - y

    learners = {"own loss": GradientRanker(half_squares), "own measure": PerceptronRanker(err_loss),
                "perceptron": PerceptronRanker(), "ridge": RidgeRanker(), "scaled": StreamScaler() | PerceptronRanker("ap"),
                "river": PointwiseRanker(linear_model.LinearRegression()),
                "LightGBM": Retrained(lightgbm.LGBMRanker(n_estimators=5, n_jobs=1, verbose=-1), every=20)}  # fmt: skip
    streams = {"linear": stream(0, 30), "same queries": list(stream(7, 30))}
    results = Experiment(learners, streams, ["ndcg@10", "err"], seeds=2).run()
    print(results, results.statements("err", "linear"), results.to_latex())
    axes = [plot.bands(results), plot.differences(results, to="LightGBM"), plot.time(results)]
    # What came of it.
    assert len(results.runs) == 7 * 2 * 2
    assert len(axes[0].get_legend().get_texts()) == len(axes[0].lines) == 7
    styles = {(line.get_color(), str(line._dash_pattern)) for line in axes[0].lines}
    assert len(styles) == 7
    assert results.difference("perceptron", "LightGBM", "err").n == np.isfinite(results.queries("ridge", "err")).sum()


def test_the_page_needs_no_more_than_20_lines():
    page = Path(__file__).parents[1] / "docs" / "experiments.md"
    code = re.search(r"```python\n(.*?)```", page.read_text(), re.DOTALL)[1]
    assert {"GradientRanker", "LGBMRanker", "linear_model", "to_latex"} <= set(re.findall(r"\w+", code))
    assert len([line for line in code.splitlines() if line.strip()]) <= 20


def test_settings_say_nothing_of_places_in_memory():
    class Own(metrics.NDCG):
        pass

    own = {
        "own": PerceptronRanker(lambda ranked: float(ranked[0] == 0)),
        "made": lambda seed: GradientRanker(lambda s, y: (0.0, s)),
    }
    one, other = (Experiment(own, {"a": list(stream(1)), "b": stream}, [Own(k=3)], seeds=2).described() for _ in range(2))
    assert json.dumps(one) == json.dumps(other)
    assert " at 0x" not in json.dumps(one)


def test_each_query_is_measured_before_it_is_learned():
    seeds = [3, 5, 8]
    results = Experiment(MODELS, {"a": stream}, ["ndcg@10", "mrr"], seeds=seeds).run()
    values = {name: [by_hand(make, seed) for seed in seeds] for name, make in MODELS.items()}
    for name, each in values.items():
        assert results.values(name).tolist() == [one[~np.isnan(one)].mean() for one in each]
        np.testing.assert_array_equal(results.queries(name), np.concatenate(each))
        band = results.curve(name)
        assert band.queries.tolist() == list(range(1, 61))
        points = np.array([[np.nanmean(one[:n]) for n in range(1, 61)] for one in each])
        np.testing.assert_allclose(band.mean, points.mean(axis=0))
        # Student's t with two degrees of freedom: 4.302653.
        half = 4.302652729911275 * points.std(axis=0, ddof=1) / math.sqrt(3)
        np.testing.assert_allclose(band.upper - band.mean, half, rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(band.mean - band.lower, half, rtol=1e-9, atol=1e-15)
    away = np.array([np.nanmean(a) - np.nanmean(b) for a, b in zip(values["average"], values["last"], strict=True)])
    assert results.change("average", "last") == pytest.approx((away.mean(), away.std(ddof=1) / math.sqrt(3), 3))
    assert results.spread("last").n == 3
    assert "ndcg@10" in repr(results)


def test_progressive_comparisons_agree_with_paired_losses():
    results = Experiment(MODELS | {"zero": Frozen(PerceptronRanker.from_weights([0.0] * 4))}, stream, "ndcg@10", seeds=4).run()
    paired = PairedLosses(results.models)
    for losses in zip(*(1.0 - results.queries(name) for name in results.models), strict=True):
        if not np.isnan(losses).any():
            paired.update(dict(zip(results.models, losses, strict=True)))
    for a, b in (("average", "zero"), ("last", "average")):
        np.testing.assert_allclose(results.difference(a, b)[:3], paired.difference(a, b)[:3], atol=1e-12)
    assert [(one.better, one.worse) for one in results.better()] == [(one.better, one.worse) for one in paired.better()]
    np.testing.assert_allclose([one.by for one in results.better()], [one.by for one in paired.better()], atol=1e-9)


def test_held_out_queries_are_ranked_by_frozen_models():
    test = list(stream(9, 40))
    held = Experiment(MODELS, {"a": list(stream(1))}, test={"a": test}, seeds=2).run()
    model = PerceptronRanker()
    for X, y in stream(1):
        model.learn_one(X, y)
    ndcg = metrics.NDCG(k=10)
    values = np.array([ndcg.value_one(y, model.predict_one(X)) for X, y in test])
    run = next(run for run in held.runs if (run.seed, run.model) == (0, "average"))
    np.testing.assert_array_equal(run.queries["ndcg@10"], values)
    # The held-out queries are the same for both seeds: they count once.
    mean = [np.mean([run.queries["ndcg@10"] for run in held.runs if run.model == name], axis=0) for name in MODELS]
    away = mean[0] - mean[1]
    assert held.difference("average", "last") == mean_interval(away[~np.isnan(away)], differences=True)
    with pytest.raises(ValueError, match="it has no curve"):
        held.curve("average")


def test_the_best_is_bold_where_it_is_better_than_every_other():
    models = {"average": PerceptronRanker(), "zero": Frozen(PerceptronRanker.from_weights([0.0] * 4))}
    results = Experiment(models, {"a_b": stream}, "ndcg@10", seeds=8).run()
    assert results.best() == "average"
    lines = results.to_latex(digits=3).splitlines()
    spread = results.spread("average")
    assert lines[:4] == [r"\begin{tabular}{lr}", r"\toprule", r"model & ndcg@10 \\", r"\midrule"]
    assert lines[4] == rf"average & $\mathbf{{{spread.mean:.3f}}} \pm {spread.error:.3f}$ \\"
    assert r"\mathbf" not in lines[5]
    level = Experiment({"a": PerceptronRanker(), "b": PerceptronRanker()}, stream, "ndcg@10", seeds=2).run()
    assert level.best() is None
    assert r"\mathbf" not in level.to_latex()


def test_a_file_continues_and_repeats_to_the_bit(tmp_path):
    experiment = Experiment(MODELS, {"a": stream, "b": list(stream(4))}, ["ndcg@10", "mrr"], seeds=2)
    whole = experiment.run(tmp_path / "whole.json")
    seen = []

    def stop(run):
        seen.append(run)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        experiment.run(tmp_path / "cut.json", watch=stop)
    assert len(read_results(tmp_path / "cut.json").missing) == 5
    rest = []
    resumed = experiment.run(tmp_path / "cut.json", watch=rest.append, processes=2)
    assert len(rest) == 5
    assert whole.differences(resumed) == []
    assert whole.differences(read_results(tmp_path / "cut.json")) == []
    assert experiment.again(tmp_path / "whole.json") == []
    content = json.loads((tmp_path / "whole.json").read_text())
    assert {"online_rank", "python", "numpy", "machine"} <= content["made_by"][0].keys()
    assert len(content["runs"]) == len(list((tmp_path / "whole.traces").iterdir())) == 8
    # One bit of one trace.
    row = content["runs"][3]
    name = f"{row['stream']}~{row['model']}~{row['seed']}.npz"
    with np.load(tmp_path / "whole.traces" / name) as trace:
        values = {key: trace[key].copy() for key in trace.files}
    (changed, *_) = np.flatnonzero(values["0"] < 1.0)
    values["0"][changed] = np.nextafter(values["0"][changed], 2.0)
    np.savez(tmp_path / "whole.traces" / name, **values)
    (found,) = experiment.again(tmp_path / "whole.json")
    assert f"{row['model']} on {row['stream']}, seed {row['seed']}: ndcg@10" in found
    assert f"first at query {changed + 1}" in found


def test_a_module_of_a_package_with_another_name_has_a_version(tmp_path, monkeypatch):
    """With xgboost from the package xgboost-cpu no experiment ran."""
    monkeypatch.setitem(sys.modules, "xgboost", SimpleNamespace(__version__="3.2.0"))
    Experiment(MODELS, stream, seeds=1).run(tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text())["made_by"][0]["xgboost"] == "3.2.0"


def test_a_file_of_another_experiment_is_refused(tmp_path):
    path = tmp_path / "a.json"
    Experiment(MODELS, stream, seeds=1).run(path)
    Experiment(MODELS | {"third": RidgeRanker()}, stream, seeds=2).run(path)
    other = {"average": PerceptronRanker("ap"), "last": PerceptronRanker(half_life=0), "third": RidgeRanker()}
    with pytest.raises(ValueError, match=r"a\.json has model 'average' with other settings"):
        Experiment(other, stream, seeds=2).run(path)
    with pytest.raises(ValueError, match="other metrics"):
        Experiment(MODELS, stream, "mrr", seeds=2).run(path)
    with pytest.raises(ValueError, match=r"a run of 'third' on 'stream' with seed 0, which this experiment lacks"):
        Experiment(MODELS, stream, seeds=2).run(path)
    (tmp_path / "a.traces" / "stream~last~1.npz").unlink()
    with pytest.raises(ValueError, match=r"stream~last~1\.npz, a trace of"):
        read_results(path)
    path.write_text("{}")
    with pytest.raises(ValueError, match="is no file of an experiment"):
        read_results(path)
    with pytest.raises(ValueError, match=r"ends in \.json"):
        Experiment(MODELS, stream).run(tmp_path / "a.txt")


def test_seeds_shuffle_lists_and_seed_streams():
    queries = list(stream(2))
    orders = [Experiment(MODELS, queries, seeds=[seed]).streams["stream"].stream(seed) for seed in (0, 1, 2)]
    numbers = [[id(query) for query in order] for order in orders]
    assert numbers[0] == [id(query) for query in queries]
    assert numbers[1] != numbers[0] != numbers[2] != numbers[1]
    assert sorted(numbers[1]) == sorted(numbers[0]) == sorted(numbers[2])
    made = Experiment(MODELS, stream(2), seeds=2).streams["stream"]
    np.testing.assert_array_equal(next(iter(made.stream(3)))[0], next(iter(stream(5)))[0])


def test_users_click_on_what_models_show():
    study = ClickStudy(stream(0, 80), user("perfect", max_grade=4))
    results = Experiment({"clicks": SwapRanker(), "grades": PerceptronRanker()}, study, seeds=2, test=list(stream(0, 20))).run()
    model, who = SwapRanker(), user("perfect", max_grade=4)
    for draw, (X, y) in enumerate(stream(0, 80)):
        model.learn_one(X, who.clicks(model.show_one(X), y, draw))
    ndcg = metrics.NDCG(k=10)
    run = next(run for run in results.runs if (run.seed, run.model) == (0, "clicks"))
    np.testing.assert_array_equal(run.queries["ndcg@10"], [ndcg.value_one(y, model.predict_one(X)) for X, y in stream(0, 20)])


def test_what_is_shown_is_measured():
    study = ClickStudy(stream(0, 5), user("perfect", max_grade=4))
    results = Experiment({"clicks": SwapRanker()}, study, "ndcg@10", seeds=1).run()
    model, who, values = SwapRanker(), user("perfect", max_grade=4), []
    for draw, (X, y) in enumerate(stream(0, 5)):
        shown = model.show_one(X)
        values.append(metrics.NDCG(k=10).value_one(y, [-float(shown.order.index(i)) for i in range(6)]))
        model.learn_one(X, who.clicks(shown, y, draw))
    np.testing.assert_array_equal(results.queries("clicks"), values)


def test_a_log_estimates_what_models_would_have_earned():
    study = ClickStudy(stream(0, 200), user("perfect", max_grade=4), logger=SwapRanker())
    fixed = {"teacher": PerceptronRanker.from_weights(stream(0).teacher), "zero": PerceptronRanker.from_weights([0.0] * 4)}
    frozen = {name: Frozen(model) for name, model in fixed.items()}
    results = Experiment(frozen, study, {"value": OffPolicyValue()}, seeds=1).run()
    for run, model in zip(results.runs, fixed.values(), strict=True):
        expected = OffPolicyValue()
        for X, clicks in study:
            expected.update(clicks, model.rank_one(X))
        value = expected.interval()
        assert run.values["value"] == value.mean
        assert run.intervals["value"] == (value.lower, value.upper)
    with pytest.raises(ValueError, match="an estimate from a log"):
        results.difference("teacher", "zero")


class Frozen:
    """Ranks, and learns nothing."""

    def __init__(self, model):
        self.model = model

    def predict_one(self, x):
        return self.model.predict_one(x)

    def rank_one(self, x):
        return self.model.rank_one(x)

    def learn_one(self, x, y):
        pass

    def __repr__(self):
        return f"Frozen({self.model!r})"


def test_batch_learners_are_trained_again():
    class Mean:
        """Scores by the mean grade of what it was trained on; counts the trainings."""

        trainings: ClassVar = []

        def fit(self, X, y):
            self.trainings.append((X.shape, y.tolist()))
            self.level = 0.25 * round(4.0 * y.mean())
            return self

        def predict(self, X):
            return X[:, 0] * self.level

    model = Retrained(Mean(), every=2, window=3)
    for t in range(6):
        model.learn_one([[1.0], [2.0]], [0, t % 3])
        level = {0: 0.0, 1: 0.25, 2: 0.25}.get(t, 0.5)  # Means of 0 0 0 1, then of the last three queries.
        assert list(model.predict_one([[1.0], [2.0]])) == [level, 2.0 * level]
    assert [shape for shape, _ in Mean.trainings] == [(4, 1), (6, 1), (6, 1)]
    assert Mean.trainings[-1][1] == [0, 0, 0, 1, 0, 2]
    with pytest.raises(TypeError, match="estimator is"):
        Retrained(3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"models": {}}, "at least one"),
        ({"models": {"a": PerceptronRanker}}, "'a' is the class PerceptronRanker"),
        ({"models": {"a": 3}}, "'a' is of type int"),
        ({"seeds": [3, 3]}, "none twice"),
        ({"seeds": []}, "at least one seed"),
        ({"test": {"b": []}}, "there is no stream 'b'"),
        ({"metrics": "nothing"}, "'nothing' is unknown"),
    ],
)
def test_bad_settings_are_refused(change, message):
    given = {"models": MODELS, "streams": {"a": stream}} | change
    with pytest.raises((TypeError, ValueError), match=message):
        Experiment(given.pop("models"), given.pop("streams"), given.pop("metrics", None), **given)
    with pytest.raises(ValueError, match="has no queries with seed 0"):
        Experiment(MODELS, [], seeds=1).run()


def test_spread_leaves_out_what_is_not_there():
    spread = Spread.of([1.0, math.nan, 2.0, 6.0])
    assert spread == pytest.approx((3.0, math.sqrt(7.0 / 3.0), 3))  # Variance (4 + 1 + 9) / 2 = 7.
    assert f"{spread:+.2f}" == "+3.00 ± 1.53"
    assert str(Spread.of([0.25])) == "0.2500"


TOML = """
metrics = ["ndcg@10", { class = "MRR" }]
seeds = 2
[models]
perceptron = { class = "PerceptronRanker", measure = "ap" }
scaled = { steps = [{ class = "StreamScaler" }, { class = "RidgeRanker" }] }
clicks = { class = "SwapRanker", policy = { class = "PlackettLuce", k = 3 } }
[streams.users]
class = "ClickStudy"
queries = { class = "NoisyTeacher", n_queries = 20, n_features = 3, n_documents = 5, seed = 4 }
user = { class = "user", name = "position", max_grade = 4 }
"""


def test_experiments_in_files(tmp_path, capsys):
    from online_rank.cli import main

    path = tmp_path / "phd.toml"
    path.write_text(TOML)

    def run(*arguments):
        with pytest.raises(SystemExit) as left:
            main(["experiment", *map(str, arguments)])
        captured = capsys.readouterr()
        return left.value.code, captured.out, captured.err

    code, out, err = run("run", path, "--json")
    assert (code, err) == (0, "")
    means = json.loads(out)["results"]["users"]
    queries = NoisyTeacher(n_queries=20, n_features=3, n_documents=5, seed=4)
    study = ClickStudy(queries, user("position", max_grade=4, seed=0))
    same = Experiment({"scaled": StreamScaler() | RidgeRanker()}, {"users": study}, seeds=1).run()
    first = read_results(tmp_path / "phd.json")
    assert first.values("scaled")[0] == same.values("scaled")[0]
    assert means["scaled"]["MRR"]["n"] == 2
    assert run("run", path, "--again") == (0, "6 runs repeated: equal to the bit\n", "")
    assert run("show", path, "--latex")[1] == first.to_latex() + "\n"
    assert "models do not" not in run("compare", path, "--metric", "MRR")[1]
    drawn = run("show", path, "--plots", tmp_path / "pictures")[1]
    assert len(list((tmp_path / "pictures").glob("*.png"))) == 3 == drawn.count("png")
    for wrong, message in (
        ("seed = 4", "[models]\nmodels = 3"),
        ('class = "MRR"', 'class = "Mrr"'),
        ('measure = "ap"', 'measures = "ap"'),
        ("metrics", "metric"),
    ):
        path.write_text(TOML.replace(wrong, message, 1))
        code, _, err = run("run", path)
        assert code == 2
        assert str(path) in err


def test_nothing_of_it_is_loaded_with_the_library():
    import subprocess

    code = "import sys, online_rank, online_rank.evaluate; sys.exit('online_rank.evaluate.experiment' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    assert {"Experiment", "Results"} <= set(dir(evaluate))
