"""scatter_max and scatter_min against loops and torch."""

import numpy as np
import pytest
import torch

import popxl
from popxl import ops
from tests.python.popxl.ops.op_testing import check, check_gradient, outputs, random

SCATTERS = {"max": ops.scatter_max, "min": ops.scatter_min}
INDICES = np.array([[0, 2, 1], [0, 2, 4], [1, 2, 4], [0, 9, 4]], np.int32)


def _beats(how, new, old):
    if np.isnan(new):
        return not np.isnan(old)
    return new > old if how == "max" else new < old


def _scattered(how, data, indices, initial=None, axis=0, size=5):
    """Element by element."""
    shape = list(data.shape)
    shape[axis] = size
    values = np.zeros(shape, data.dtype) if initial is None else initial.copy()
    positions = np.full(values.shape, data.shape[axis], np.int32)
    for place in np.ndindex(*indices.shape):
        to = (*place[:axis], indices[place], *place[axis + 1 :])
        if not 0 <= to[axis] < size:
            continue
        untouched = initial is None and positions[to] == data.shape[axis]
        if untouched or _beats(how, data[place], values[to]):
            values[to], positions[to] = data[place], place[axis]
    return [values, positions]


@pytest.mark.parametrize("how", ["max", "min"])
@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, np.int32, np.uint8, np.bool_]
)
def test_values_and_positions(how, dtype):
    x = random(4, 3, low=0.0, high=4.0).astype(dtype)
    initial = random(5, 3, low=0.0, high=4.0, seed=1).astype(dtype)
    check(
        lambda d, i, s: SCATTERS[how](d, i, s), lambda *a: _scattered(how, *a), x, INDICES, initial
    )
    check(lambda d, i: SCATTERS[how](d, i, axis_size=5), lambda *a: _scattered(how, *a), x, INDICES)


@pytest.mark.parametrize("how", ["max", "min"])
def test_the_first_of_equal_elements_wins_and_initial_values_before_them(how):
    x = np.array([1.0, 1.0, -1.0, 1.0, 0.0], np.float32)
    indices = np.array([0, 0, 1, 1, 2], np.int32)
    _, positions = outputs(lambda d, i: SCATTERS[how](d, i, axis_size=4), x, indices)
    np.testing.assert_array_equal(positions, [0, 3 if how == "max" else 2, 4, 5])
    initial = np.array([1.0, 5.0 if how == "max" else -5.0, 0.0, 0.0], np.float32)
    values, positions = outputs(lambda d, i, s: SCATTERS[how](d, i, s), x, indices, initial)
    np.testing.assert_array_equal(values, initial)
    np.testing.assert_array_equal(positions, [5, 5, 5, 5])


@pytest.mark.parametrize("how", ["max", "min"])
def test_infinities_and_nan(how):
    x = np.array([np.inf, np.nan, -np.inf, 1.0, np.nan, -np.inf], np.float32)
    indices = np.array([0, 0, 1, 1, 0, 2], np.int32)
    check(
        lambda d, i: SCATTERS[how](d, i, axis_size=4),
        lambda *a: _scattered(how, *a, size=4),
        x,
        indices,
    )


@pytest.mark.parametrize("how", ["max", "min"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_vector_of_indices_holds_for_slices(how, axis):
    x = random(4, 3, 6)
    vector = np.arange(x.shape[axis], dtype=np.int32) * 2 % 3
    shape = [1, 1, 1]
    shape[axis] = -1
    full = np.broadcast_to(vector.reshape(shape), x.shape)
    check(
        lambda d, i: SCATTERS[how](d, i, axis=axis, axis_size=3),
        lambda d, i: _scattered(how, d, full, axis=axis % 3, size=3),
        x,
        vector,
    )


@pytest.mark.parametrize("how", ["max", "min"])
def test_smaller_indices_stand_for_single_elements(how):
    x = random(4, 3)
    indices = INDICES[:3, :2].copy()

    def wanted(d, i):
        values, positions = _scattered(how, d[:3, :2], i)
        positions[positions == 3] = 4
        return [
            np.pad(values, ((0, 0), (0, 1))),
            np.pad(positions, ((0, 0), (0, 1)), constant_values=4),
        ]

    check(
        lambda d, i: SCATTERS[how](d, i, axis_size=5, enable_index_broadcast=False),
        wanted,
        x,
        indices,
    )


def _through_positions(how):
    """The values as elements that torch picks by position, so that torch has their gradient."""

    def build(data, indices, initial=None):
        size = 5
        found = _scattered(
            how,
            data.detach().numpy(),
            indices.numpy(),
            None if initial is None else initial.detach().numpy(),
            size=size,
        )
        rest = torch.zeros(size, *data.shape[1:]) if initial is None else initial
        positions = torch.from_numpy(found[1]).long()
        picked = torch.cat([data, torch.zeros(1, *data.shape[1:])]).gather(0, positions)
        return torch.where(positions < data.shape[0], picked, rest)

    return build


@pytest.mark.parametrize("how", ["max", "min"])
def test_gradients_go_to_the_winners_alone(how):
    x, initial = random(4, 3), random(5, 3, seed=1)
    x[1] = x[0]  # ties
    reference = _through_positions(how)
    check_gradient(
        lambda d, s, i: SCATTERS[how](d, i, s),
        lambda d, s, i: reference(d, i, s),
        x,
        initial,
        INDICES,
    )
    check_gradient(
        lambda d, i: SCATTERS[how](d, i, axis_size=5), lambda d, i: reference(d, i), x, INDICES
    )


def test_a_size_is_wanted():
    with popxl.Ir().main_graph:
        data, indices = popxl.variable(random(4, 3)), popxl.variable(INDICES)
        with pytest.raises(ValueError, match="scatter_min: give initial_values or axis_size"):
            ops.scatter_min(data, indices)
