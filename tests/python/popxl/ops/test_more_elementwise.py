"""Functions that need all their digits, against float64 of NumPy and SciPy, and torch."""

import numpy as np
import pytest
import scipy.special
import torch

from popxl import ops
from tests.python.popxl.ops.op_testing import check, check_gradient, outputs, random

FUNCTIONS = {
    "log1p": (np.log1p, torch.log1p, -0.9, 3.0),
    "expm1": (np.expm1, torch.expm1, -3.0, 3.0),
    "atan": (np.arctan, torch.atan, -4.0, 4.0),
    "erf": (scipy.special.erf, torch.erf, -3.0, 3.0),
    "erfc": (scipy.special.erfc, torch.erfc, -3.0, 3.0),
}
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-37, -1e-37, 1e-8, -1e-8, -1.0, -2.0, 88.0, 200.0]
SPECIAL += [-200.0, 3e38, -3e38]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients(name, dtype):
    reference, torch_reference, low, high = FUNCTIONS[name]
    x = random(5, 7, low=low, high=high)
    check(
        getattr(ops, name), lambda a: reference(a.astype(np.float64)).astype(dtype), x.astype(dtype)
    )
    check_gradient(getattr(ops, name), torch_reference, x)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_few_units_in_the_last_place(name):
    reference, _, low, high = FUNCTIONS[name]
    x = np.concatenate([np.linspace(low, high, 20001), np.geomspace(1e-30, 1.0, 5000)])
    x = x.astype(np.float32)
    (given,) = outputs(getattr(ops, name), x)
    wanted = reference(x.astype(np.float64))
    error = np.abs(given.astype(np.float64) - wanted)
    assert np.max(error / np.spacing(np.abs(wanted).astype(np.float32))) <= 6.5


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(name):
    x = np.array(SPECIAL, np.float32)
    with np.errstate(all="ignore"):
        wanted = FUNCTIONS[name][0](x.astype(np.float64)).astype(np.float32)
    (given,) = outputs(getattr(ops, name), x)
    np.testing.assert_allclose(given, wanted, rtol=1e-6, atol=0)
    if name != "erfc":
        np.testing.assert_array_equal(np.signbit(given[3:5]), [False, True])
