import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import online_rank
from online_rank.support.lazy import MissingExtra, needs
from online_rank.support.registry import ROOMS


def test_import_is_lazy():
    # Neither numba nor any module of ours that could load it is there, so nothing can be compiled.
    code = "import sys, online_rank; print([m for m in sys.modules if m == 'numba' or m.startswith('online_rank.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['online_rank.support', 'online_rank.support.lazy', 'online_rank.support.registry']"


@pytest.mark.slow
def test_importing_every_module_compiles_nothing():
    code = (
        "import online_rank, importlib, sys\n"
        "from numba.core.registry import CPUDispatcher\n"
        "from online_rank.support.registry import ROOMS\n"
        "for name in (*online_rank.__all__, *ROOMS): getattr(online_rank, name)\n"
        "kernels = {id(v): v for m in list(sys.modules.values()) if getattr(m, '__name__', '').startswith('online_rank')\n"
        "           for v in vars(m).values() if isinstance(v, CPUDispatcher)}\n"
        "print(len(kernels) > 0, [k for k in kernels.values() if k.overloads])"
    )
    # Kernels compiled ahead are no dispatchers; without them there is something to look at.
    without_objects = {**os.environ, "ONLINE_RANK_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=without_objects)
    assert done.stdout.strip() == "True []"


def test_the_extra_all_has_every_extra_for_users():
    extras = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (everything,) = extras.pop("all")
    named = re.search(r"\[(.*)\]", everything)[1].split(",")
    assert set(named) == extras.keys() - {"bench", "dev", "docs", "fuzz", "test"}


def test_public_names():
    assert sorted(online_rank.__all__) == sorted(set(online_rank.__all__))
    for name in (*online_rank.__all__, *ROOMS):
        assert getattr(online_rank, name) is getattr(online_rank, name)
        assert name in dir(online_rank)


def test_a_star_hides_none_of_rivers_modules():
    namespace = {}
    exec("from river import evaluate, metrics, preprocessing, stream\nfrom online_rank import *", namespace)
    assert {namespace[name].__name__ for name in ("evaluate", "metrics", "preprocessing", "stream")} == {
        "river.evaluate",
        "river.metrics",
        "river.preprocessing",
        "river.stream",
    }
    assert namespace["PerceptronRanker"] is online_rank.PerceptronRanker


@pytest.mark.slow
def test_kernels_can_be_stepped_through():
    # With NUMBA_DISABLE_JIT=1 kernels are plain Python, for debuggers and coverage.
    code = (
        "import numpy as np\n"
        "from online_rank import DirectRanker, GradientRanker, PerceptronRanker, StreamScaler\n"
        "X, y = np.random.default_rng(0).normal(size=(6, 3)), [0, 1, 2, 0, 1, 2]\n"
        "for model in (StreamScaler() | PerceptronRanker(), GradientRanker('logistic'), DirectRanker((4,), seed=1)):\n"
        "    model.learn_one(X, y)\n"
        "    model.learn_one(-X, y)\n"
        "    print(*model.predict_one(X))\n"
    )

    def scores(disabled):
        environment = {**os.environ, "NUMBA_DISABLE_JIT": disabled}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        return [float(score) for score in done.stdout.split()]

    compiled = scores("0")
    assert len(compiled) == 3 * 6
    assert scores("1") == pytest.approx(compiled, rel=1e-6)


def test_an_extra_that_is_there_but_broken_has_the_remedy_too():
    """psycopg without libpq raises an ImportError that names no package."""
    with pytest.raises(ImportError) as caught, needs("PostgreSQL", "postgres"):
        raise ImportError("no pq wrapper")
    assert str(caught.value) == 'PostgreSQL cannot begin (no pq wrapper): pip install "online_rank[postgres]"'
    with pytest.raises(MissingExtra) as caught, needs("the server", "serve"), needs("the reader", "client"):
        raise ModuleNotFoundError("no", name="httpx.x")
    assert str(caught.value) == 'the reader needs httpx: pip install "online_rank[client]"'
    # A message decides nothing: this one speaks of pip, and is none of ours.
    with pytest.raises(MissingExtra) as caught, needs("the server", "serve"):
        raise ImportError("pip install x")
    assert str(caught.value) == 'the server cannot begin (pip install x): pip install "online_rank[serve]"'
