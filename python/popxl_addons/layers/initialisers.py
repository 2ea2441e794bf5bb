"""Initial values of layers' variables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

DEVIATION = 0.02
# In deviations.
LIMIT = 2.0

# Rational approximations of the normal distribution's quantiles to 16 digits: M. J. Wichura,
# Algorithm AS 241, PPND16 (Applied Statistics 37, 1988); highest powers first. The third one, of
# probabilities below 1e-11, is beyond LIMIT.
_CENTRE = (
    (
        *(2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4),
        *(4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3),
        *(1.3314166789178437745e2, 3.3871328727963666080e0),
    ),
    (
        *(5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4),
        *(2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2),
        *(4.2313330701600911252e1, 1.0),
    ),
)
_TAIL = (
    (
        *(7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1),
        *(1.27045825245236838258e0, 3.64784832476320460504e0, 5.76949722146069140550e0),
        *(4.63033784615654529590e0, 1.42343711074968357734e0),
    ),
    (
        *(1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2),
        *(1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e0),
        *(2.05319162663775882187e0, 1.0),
    ),
)


def _ratio(coefficients: tuple[tuple[float, ...], tuple[float, ...]], x: np.ndarray) -> np.ndarray:
    return np.asarray(np.polyval(coefficients[0], x) / np.polyval(coefficients[1], x))


def _normal_quantiles(probabilities: np.ndarray) -> np.ndarray:
    """The values below which a normal variable is with these probabilities, 1e-11 to 1 - 1e-11."""
    distance = probabilities - 0.5
    rest = np.minimum(probabilities, 1 - probabilities)
    centre = distance * _ratio(_CENTRE, 0.180625 - distance * distance)
    tail = np.copysign(_ratio(_TAIL, np.sqrt(-np.log(rest)) - 1.6), distance)
    return np.where(np.abs(distance) <= 0.425, centre, tail)


def _draw(shape: tuple[int, ...]) -> np.ndarray:
    outside = 0.5 * math.erfc(LIMIT / math.sqrt(2))
    drawn = np.random.uniform(size=shape)
    return DEVIATION * _normal_quantiles(outside + drawn * (1 - 2 * outside))


def truncated_normal(shape: Sequence[int]) -> Callable[[], np.ndarray]:
    """What draws values of a normal distribution (mean 0, deviation 0.02) within two deviations.

    From NumPy's global generator, one number a value: after the same `np.random.seed` they are
    those of `scipy.stats.truncnorm.rvs(-2, 2, loc=0, scale=0.02, size=shape)`.

    Args:
        shape: Of the array to draw.

    Returns:
        A function without arguments that draws a float64 array of that shape.
    """
    return partial(_draw, tuple(shape))
