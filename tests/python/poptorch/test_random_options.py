"""Random options of executors, beside eager torch."""

from __future__ import annotations

from tests.python.poptorch.random_options import outcome_of

CASES = 15


def test_options_do_what_they_say() -> None:
    outcomes = {seed: outcome_of(seed) for seed in range(500_000, 500_000 + CASES)}
    assert {seed: outcome for seed, outcome in outcomes.items() if outcome} == {}
