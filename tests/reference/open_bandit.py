"""Values of another ranker from one log, by the Open Bandit Pipeline (zr-obp 0.5.7), for `tests/metrics/test_off_policy.py`.

    python3.9 -m venv obp && obp/bin/pip install "numpy<2" scipy scikit-learn pandas tqdm PyYAML
    obp/bin/pip download --no-deps --no-binary :all: obp==0.5.7 && tar xzf obp-0.5.7.tar.gz
    PYTHONPATH=obp-0.5.7 obp/bin/python tests/reference/open_bandit.py tests/reference/open_bandit.json

It needs a Python older than 3.11, so it imports nothing of this library, and its values are committed with the log. What it
imports for networks and plots takes no part in these estimators; where that is missing, mocks stand in for it.
"""

import json
import sys
from pathlib import Path
from unittest import mock

import numpy as np

N, PLACES, DOCUMENTS = 400, 3, 4
WEIGHTS = (0.5, 0.3, 0.2)


def log():
    """Lists that a policy drew document by document, clicks on them, and what another ranker would have shown."""
    rng = np.random.default_rng(0)
    lists = []
    for _ in range(N):
        ranking = rng.permutation(DOCUMENTS)
        logits = rng.normal(size=DOCUMENTS)
        logits[ranking] += 2.0 * np.arange(DOCUMENTS)[::-1]
        left, shown, chances = list(range(DOCUMENTS)), [], []
        for _ in range(PLACES):
            e = np.exp(logits[left])
            picked = rng.choice(len(left), p=e / e.sum())
            chances.append(float(e[picked] / e.sum()))
            shown.append(int(left.pop(picked)))
        clicks = [int(rng.random() < 0.2 + 0.15 * document / place) for place, document in enumerate(shown, start=1)]
        expected = [round(float(guess), 3) for guess in rng.random(PLACES)]
        lists.append({"shown": shown, "chances": chances, "clicks": clicks, "ranking": ranking.tolist(), "expected": expected})
    return lists


def values(lists, weights):
    """The estimates of `obp` for a ranker that shows the first documents of each `ranking`."""
    from obp.ope import SelfNormalizedSlateRewardInteractionIPS, SlateCascadeDoublyRobust, SlateRewardInteractionIPS

    places = len(weights)
    agree = [np.cumprod([a == b for a, b in zip(each["shown"][:places], each["ranking"])]) for each in lists]  # noqa: B905
    wished = np.array([each["ranking"][:places] for each in lists])
    each_document = (wished[:, :, None] == np.arange(DOCUMENTS)).astype(float)
    expected = np.array(weights) * np.array([each["expected"][:places] for each in lists])
    given = {
        "slate_id": np.repeat(np.arange(len(lists)), places),
        "position": np.tile(np.arange(places), len(lists)),
        "reward": np.concatenate([np.array(weights) * each["clicks"][:places] for each in lists]),
        "pscore_cascade": np.concatenate([np.cumprod(each["chances"][:places]) for each in lists]),
        "evaluation_policy_pscore_cascade": np.concatenate(agree).astype(float),
    }
    robust = SlateCascadeDoublyRobust(places, n_unique_action=DOCUMENTS).estimate_policy_value(
        **given,
        action=np.concatenate([each["shown"][:places] for each in lists]),
        q_hat=np.repeat(expected.ravel(), DOCUMENTS),
        evaluation_policy_action_dist=each_document.ravel(),
    )
    return {
        "weights": weights,
        "ips": float(SlateRewardInteractionIPS(places).estimate_policy_value(**given)),
        "snips": float(SelfNormalizedSlateRewardInteractionIPS(places).estimate_policy_value(**given)),
        "doubly_robust": float(robust),
    }


def main():
    for name in ("torch", "torch.nn", "torch.nn.functional", "torch.optim", "matplotlib", "matplotlib.pyplot", "seaborn"):
        sys.modules.setdefault(name, mock.MagicMock())
    sys.modules["torch"].nn.Module = sys.modules["torch"].utils.data.Dataset = object
    lists = log()
    made = {"log": lists, "values": [values(lists, weights) for weights in ((1.0,), WEIGHTS)]}
    lines = ",\n".join(json.dumps(each) for each in lists)
    Path(sys.argv[1]).write_text(f'{{"values": {json.dumps(made["values"])}, "log": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
