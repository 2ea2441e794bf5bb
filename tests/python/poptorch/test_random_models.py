"""Random models in the ways in which they are run, against eager torch."""

from __future__ import annotations

import pytest

from tests.python.poptorch.random_models import checked

PROGRAMS = {"inference": 8, "training": 5, "fit_in": 2, "half": 5}


@pytest.mark.parametrize("mode", PROGRAMS)
def test_random_models_agree(mode: str) -> None:
    outcomes = list(checked(PROGRAMS[mode], 400_000, mode))
    assert sum(outcome is not None for _, outcome in outcomes) > PROGRAMS[mode] // 2
    assert [(seed, outcome) for seed, outcome in outcomes if outcome] == []
