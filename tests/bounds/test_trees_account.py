"""Certificates of additive rankers with trees against an account with 50 digits."""

import pytest

from online_rank.rankers import growing_trees
from tests.reference.trees_account import checks


def held(seeds):
    """Check what must hold on some streams; returns the statements."""
    statements = set()
    for seed in seeds:
        for check in checks(seed):
            statements.add(check.statement)
            assert check.smaller <= check.larger + 1e-9 * (1.0 + check.size), (seed, check)
    return statements


def test_certificates_agree_with_the_losses_of_curves_and_trees(monkeypatch):
    monkeypatch.setattr(growing_trees, "_EVIDENCE", -1e9)  # Trees are served from the first one on.
    assert len(held([1])) == 4


def test_while_trees_wait_for_evidence_the_account_holds_too():
    assert len(held([2])) == 4


@pytest.mark.slow
@pytest.mark.parametrize("enough", [-1e9, 0.5])
def test_no_adversary_violates_a_certificate(monkeypatch, enough):
    monkeypatch.setattr(growing_trees, "_EVIDENCE", enough)
    held(range(40))
