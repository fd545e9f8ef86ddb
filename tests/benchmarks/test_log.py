"""The commands of the guide on a small log: from an unsorted table to C, with every column and every row accounted for."""

import json
import re
import shutil
import subprocess

import pytest

from benchmarks.log import COMMANDS, run, write_log
from online_rank import read

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("log")
    write_log(folder / "log.parquet", 2000)
    return folder, [run(command, str(folder)) for command in COMMANDS]


def test_the_page_goes_from_a_table_to_c(found):
    assert [command.split()[0] for command in COMMANDS] == ["train", "train", "evaluate", "export"]
    _, commands = found
    look, trained, evaluated, exported = (" ".join(each.output.split()) for each in commands)
    why = "text: convert numbers; AdditiveRanker takes categories (--ranker additive), HashedFeatures(text=...) words"
    left_out = f"title ({why}); __index_level_0__ (the index of"
    for column in ("price", "clicks", "bm25", "age", "stars", "stock"):
        assert f" {column} number feature " in look
    for line in (" query text query ", " product text document ", " grade number grade ", " new boolean feature ",
                 " title text left out ", " seen time event time "):  # fmt: skip
        assert line in look
    assert "2,000 rows" in look
    assert left_out in look
    assert "online-rank: 7 features: price, clicks, bm25, age, new, stars, stock online-rank: left out: " in trained
    assert left_out in trained
    assert "100 queries, 2,000 documents, 7 features" in trained
    assert "Certificate against 'batch weights'" in trained
    assert trained.count(" holds") >= 3
    assert re.search(r"F\(u\) \+ <u, w> .* holds", trained)
    assert "100 queries" in evaluated
    assert "ndcg@10" in evaluated
    assert "the certificate is of what the model computes here" in exported
    assert max(each.megabytes for each in commands) < 1000


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_c_code_ranks_the_log_as_the_model_does(found):
    import ctypes

    import numpy as np

    from online_rank import load

    folder, _ = found
    (folder / "call.c").write_text(
        '#include "model.c"\nint call(const double *x, int n, double *s)\n'
        "{ for (int i = 0; i < n; i++) s[i] = online_rank_score(x + 7 * i); return 0; }\n"
    )
    strict = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-Wno-unused-const-variable"]
    subprocess.run(["cc", *strict, "-O2", "-shared", "-fPIC", "-o", "model.so", "call.c", "-lm"], check=True, cwd=folder)
    library, pointer = ctypes.CDLL(str(folder / "model.so")), ctypes.POINTER(ctypes.c_double)
    model, rows = load(folder / "model.npz"), 0
    roles = {"query": "query", "grade": "grade", "document": "product", "event_time": "seen"}
    for x, _ in read(folder / "log.parquet", **roles, missing="zero", repeated_qid="group"):
        scores, expected = np.empty(len(x.X)), model.predict_one(x)
        assert library.call(x.X.ctypes.data_as(pointer), len(x.X), scores.ctypes.data_as(pointer)) == 0
        assert scores == pytest.approx(expected, abs=1e-5 * max(map(abs, expected)))
        rows += len(x.X)
    assert rows == 2000


def test_nothing_is_dropped_in_the_figures(found):
    folder, _ = found
    _, begin, rest = run(f"{COMMANDS[0]} --json", str(folder)).output.partition("{")
    seen = json.loads(begin + rest)
    assert seen["rows"] == 2000
    assert all(column["role"] != "left out" or column["why"] for column in seen["columns"])
