"""Certificates of additive rankers against an account with 50 digits."""

import pytest

from tests.reference.additive_account import checks


def held(seeds):
    """Check what must hold on some streams; returns the statements."""
    statements = set()
    for seed in seeds:
        for check in checks(seed):
            statements.add(check.statement)
            assert check.smaller <= check.larger + 1e-9 * (1.0 + check.size), (seed, check)
    return statements


def test_certificates_agree_with_losses_and_updates():
    assert len(held([1])) == 8


@pytest.mark.slow
def test_no_adversary_violates_a_certificate():
    held(range(30))
