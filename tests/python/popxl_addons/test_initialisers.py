"""Initial values of layers beside SciPy's."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import norm, truncnorm

from popxl_addons.layers import initialisers


@pytest.mark.parametrize("shape", [(), (3,), (200, 300)])
def test_truncated_normal_draws_what_scipy_draws(shape: tuple[int, ...]) -> None:
    draw = initialisers.truncated_normal(shape)
    np.random.seed(7)
    drawn = [draw(), draw()]
    np.random.seed(7)
    for values in drawn:
        expected = truncnorm.rvs(-2, 2, loc=0, scale=0.02, size=shape)
        assert np.shape(values) == shape and np.asarray(values).dtype == np.float64
        np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-16)


def test_quantiles_from_one_end_to_the_other() -> None:
    small = np.geomspace(1e-11, 0.5, 2000)
    for probabilities in (small, 1 - small):
        expected = norm.ppf(probabilities)
        np.testing.assert_allclose(
            initialisers._normal_quantiles(probabilities), expected, rtol=1e-14, atol=1e-15
        )


def test_an_installed_package_needs_no_scipy() -> None:
    program = "import sys, popxl_addons.layers; assert 'scipy' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
