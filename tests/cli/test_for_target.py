"""`train --for` says before training what the target cannot distinguish."""

import numpy as np
import pytest

from online_rank.cli import main


@pytest.fixture
def table(tmp_path):
    rng, rows = np.random.default_rng(0), ["query,price,margin,grade"]
    for q in range(30):
        for i in range(6):
            price = 1.0 + rng.exponential()
            rows.append(f"{q},{price if i else ''},{i - 1 if i > 1 else '' if q % 2 else 0},{int(price < 1.5)}")
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n")
    return tmp_path / "log.csv"


@pytest.mark.parametrize(("target", "title"), [("elasticsearch", "the plugin"), ("solr", "Solr"), ("vespa", None)])
def test_a_feature_that_is_missing_and_0_is_named_before_training(table, capsys, target, title):
    with pytest.raises(SystemExit) as left:
        main(["train", str(table), "--grade", "grade", "--for", target])
    err = capsys.readouterr().err
    assert left.value.code == 0
    line = f"--for {target}: missing in some documents, and 0 or less in others: margin. {title} takes a missing field for 0"
    assert (line in err) == (title is not None)
