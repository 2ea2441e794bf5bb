"""How combined batches are split and results put together, against counting by hand."""

from __future__ import annotations

import itertools
import logging

import numpy as np
import pytest
import torch

from poptorch._batching import BatchSizes, HostArrays, OutputSizes, input_dtype
from poptorch._errors import Error
from poptorch.enums import CommGroupType, OutputMode
from poptorch.options import Options

SIZES = [
    BatchSizes(iterations, replicas, accumulation, group, kind)
    for iterations, accumulation, (replicas, group), kind in itertools.product(
        (1, 3),
        (1, 2),
        ((1, 1), (2, 1), (2, 2), (4, 2), (6, 2)),
        (CommGroupType.Consecutive, CommGroupType.Orthogonal),
    )
]


def micro_batch(sizes: BatchSizes, rows: np.ndarray, replica: int, step: int) -> np.ndarray:
    """The rows of one micro-batch, counted from the order of the levels."""
    groups = sizes.replication_factor // sizes.input_group_size
    if sizes.input_group_type == CommGroupType.Orthogonal:
        group = replica % groups
    else:
        group = replica // sizes.input_group_size
    size = len(rows) // (groups * sizes.device_iterations * sizes.gradient_accumulation)
    first = (group * sizes.device_iterations * sizes.gradient_accumulation + step) * size
    return rows[first : first + size]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_each_micro_batch_goes_to_its_replica_and_step(sizes: BatchSizes) -> None:
    rows = np.arange(sizes.extra * 2 * 3).reshape(sizes.extra * 2, 3)
    steps, replicas = sizes.steps, sizes.replication_factor
    split = sizes.split(rows)
    axes = (*((steps,) if steps > 1 else ()), *((replicas,) if replicas > 1 else ()))
    assert split.shape == (*axes, 2, 3)
    by_step = split.reshape(steps, replicas, 2, 3)
    for step, replica in itertools.product(range(steps), range(replicas)):
        np.testing.assert_array_equal(
            by_step[step, replica], micro_batch(sizes, rows, replica, step)
        )


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_only_shared_groups_are_copied(sizes: BatchSizes) -> None:
    rows = np.zeros((sizes.extra * 2, 3))
    partly_shared = 1 < sizes.input_group_size < sizes.replication_factor
    assert np.shares_memory(sizes.split(rows), rows) is not partly_shared


def test_numbers_of_options() -> None:
    options = Options().deviceIterations(2).replicationFactor(6)
    options.inputReplicaGrouping(3, CommGroupType.Orthogonal)
    options.Training.gradientAccumulation(5)
    assert BatchSizes.of(options) == BatchSizes(2, 6, 5, 3, CommGroupType.Orthogonal)
    assert BatchSizes.of(options).extra == 2 * (6 // 3) * 5


def test_a_scalar_input_counts_as_one_row() -> None:
    assert BatchSizes().split(np.float32(3) * np.ones(())).shape == ()
    shared = BatchSizes(replication_factor=2, input_group_size=2).split(np.full((), 3.0))
    np.testing.assert_array_equal(shared, [3, 3])
    with pytest.raises(AssertionError, match=r"In the input torch.Size\(\[\]\), .* \(1\) must"):
        BatchSizes(device_iterations=2).check(())


def test_a_batch_that_cannot_be_split() -> None:
    sizes = BatchSizes(2, 4, 3, 2)
    sizes.check((24, 5))
    with pytest.raises(AssertionError) as raised:
        sizes.check((25, 5))
    assert str(raised.value).startswith(
        "Invalid batch dimension: In the input torch.Size([25, 5]), the batch dimension (25) must "
        "be a multiple of Options.deviceIterations(2) * (Options.replicationFactor(4) / "
        "Options.inputReplicaGrouping.input_group_size(2)) * "
        "Options.Training.gradientAccumulation(3) = 12 because "
    )


def test_the_module_sees_the_first_micro_batch() -> None:
    given = torch.arange(24.0).reshape(12, 2).requires_grad_()
    seen = BatchSizes(2, 1, 3).micro_batch(given)
    torch.testing.assert_close(seen, given[:2].detach())
    assert not seen.requires_grad
    assert BatchSizes().micro_batch(torch.tensor(1.0)).shape == ()


# The worked shapes of the specification: D, A, R, g and the shapes of [2, 10] and of a loss.
WORKED = [
    (1, 1, 1, 1, OutputMode.All, 1, (2, 10), ()),
    (1, 1, 1, 1, OutputMode.Final, 1, (2, 10), ()),
    (3, 1, 1, 1, OutputMode.All, 1, (6, 10), (3,)),
    (3, 1, 1, 1, OutputMode.Final, 1, (2, 10), ()),
    (3, 1, 1, 1, OutputMode.Sum, 1, (2, 10), ()),
    (3, 1, 1, 1, OutputMode.EveryN, 3, (2, 10), ()),
    (2, 3, 1, 1, OutputMode.All, 1, (12, 10), (6,)),
    (2, 3, 1, 1, OutputMode.EveryN, 3, (4, 10), (2,)),
    (2, 3, 4, 1, OutputMode.All, 1, (48, 10), (24,)),
    (2, 3, 4, 1, OutputMode.Sum, 1, (8, 10), (4,)),
    (2, 3, 4, 1, OutputMode.EveryN, 3, (16, 10), (8,)),
    (2, 3, 4, 2, OutputMode.All, 1, (48, 10), (24,)),
    (2, 3, 4, 2, OutputMode.Final, 1, (8, 10), (4,)),
    (2, 3, 4, 2, OutputMode.EveryN, 3, (16, 10), (8,)),
]


@pytest.mark.parametrize(("d", "a", "r", "g", "mode", "period", "rows", "loss"), WORKED)
def test_shapes_of_results(d, a, r, g, mode, period, rows, loss) -> None:
    sizes = OutputSizes(BatchSizes(d, r, a, g), mode, period)
    assert sizes.shape((2, 10)) == rows
    assert sizes.shape(()) == loss


MODES = [(OutputMode.All, 1), (OutputMode.Final, 1), (OutputMode.Sum, 1), (OutputMode.EveryN, 4)]


@pytest.mark.parametrize(("mode", "period"), MODES)
@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("transfers", ["all", "stored"])
def test_results_are_replica_major(mode, period, replicas: int, transfers: str) -> None:
    """A session writes the results of step s and replica r as (s, r), for `EveryN` all of them."""
    sizes = OutputSizes(BatchSizes(4, replicas, 3), mode, period)
    stored = sizes.returned_steps()
    assert len(stored) == sizes.each
    result = sizes.make((2,), torch.int32, 12 if transfers == "all" else sizes.each)
    has_transfers = transfers == "all" or sizes.each > 1
    stores_every_step = mode == OutputMode.EveryN and transfers == "all"
    for number, step in enumerate(stored):
        place = step if stores_every_step else number
        for replica in range(replicas):
            index = (*((place,) if has_transfers else ()), *((replica,) if replicas > 1 else ()))
            result.array[index] = [100 * replica + step, -1]
    expected = [[100 * r + step, -1] for r in range(replicas) for step in stored]
    assert result.tensor().tolist() == torch.tensor(expected).reshape(-1).tolist()
    if mode == OutputMode.EveryN:
        assert stored == [3, 7, 11]


def test_a_period_longer_than_the_run_returns_nothing() -> None:
    sizes = OutputSizes(BatchSizes(2), OutputMode.EveryN, 3)
    assert sizes.returned_steps() == []
    assert sizes.make((2, 10), torch.float32, 2).tensor().shape == (0, 10)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (torch.bool, torch.bool),
        (torch.uint8, torch.uint8),
        (torch.int8, torch.int8),
        (torch.int16, torch.int16),
        (torch.int32, torch.int32),
        (torch.int64, torch.int32),
        (torch.float16, torch.float16),
        (torch.float32, torch.float32),
        (torch.float64, torch.float32),
        (torch.bfloat16, torch.float32),
    ],
)
def test_types_of_inputs(dtype: torch.dtype, expected: torch.dtype) -> None:
    given = torch.tensor([[0, 1], [1, 0]]).to(dtype)
    array = HostArrays().array("x", given)
    assert input_dtype(dtype) == expected
    torch.testing.assert_close(torch.from_numpy(array), given.to(expected))
    if dtype == expected:
        assert array.__array_interface__["data"][0] == given.data_ptr()


def test_inputs_that_are_refused() -> None:
    arrays = HostArrays()
    with pytest.raises(Error, match=r"Unsupported input type torch.complex64"):
        arrays.array("x", torch.zeros(2, dtype=torch.complex64))
    with pytest.raises(Error, match=r"Input x\[0\]: wanted a dense tensor on the CPU; .* meta"):
        arrays.array("x[0]", torch.zeros(2, device="meta"))
    with pytest.raises(Error, match=r"given layout torch.sparse_coo"):
        arrays.array("x", torch.eye(2).to_sparse())
    with pytest.raises(Error, match=r"between -2147483648 and 2147483647, .* 1 and 2147483648"):
        arrays.array("x", torch.tensor([1, 2**31]))
    limits = torch.tensor([-(2**31), 2**31 - 1])
    assert arrays.array("x", limits).tolist() == limits.tolist()


def test_warnings_come_once(caplog: pytest.LogCaptureFixture) -> None:
    arrays = HostArrays()
    logger = logging.getLogger("poptorch::python")
    logger.addHandler(caplog.handler)
    try:
        for _ in range(2):
            given = torch.arange(6.0).reshape(2, 3).t().requires_grad_()
            array = arrays.array("x", given)
    finally:
        logger.removeHandler(caplog.handler)
    np.testing.assert_array_equal(array, given.detach().numpy())
    assert array.flags.c_contiguous
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "Input x has requires_grad=True",
        "Input x is not contiguous",
    ]
