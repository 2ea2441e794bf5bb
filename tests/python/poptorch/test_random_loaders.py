"""Random sequences of what programs do with an asynchronous loader, and Ctrl-C in between."""

from __future__ import annotations

from tests.python.poptorch.random_loaders import Loading
from tests.python.random_sequences import outcome_of

SEQUENCES = 30


def test_batches_are_those_of_the_dataset_whatever_was_left_or_interrupted() -> None:
    outcomes = {seed: outcome_of(Loading, seed) for seed in range(900_000, 900_000 + SEQUENCES)}
    assert {seed: outcome for seed, outcome in outcomes.items() if outcome} == {}
