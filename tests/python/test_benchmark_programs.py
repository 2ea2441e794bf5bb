"""The programs that the benchmarks time do what their names say."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import popxl
from benchmarks import data, memory, phased_tutorial
from benchmarks.cases import Case, all_cases
from benchmarks.frameworks import popxl_programs
from pando.session_info import memory_plan

TRAINING = [case for case in all_cases() if case.training and case.batch <= 32]


@pytest.mark.parametrize("case", TRAINING, ids=[case.name for case in TRAINING])
def test_a_training_step_changes_every_parameter(case: Case) -> None:
    built = popxl_programs.training(case)
    parameters = [v for v in built.ir.main_graph.variables if v.dtype == popxl.float32]
    matrices = [v for v in parameters if v.rank >= 2]
    assert matrices
    with popxl.Session(built.ir, "cpu") as session:
        before = {v: session.get_tensor_data(v).copy() for v in matrices}
        batch = data.batches(case)[0]
        session.run(dict(zip(built.inputs, (batch.x, batch.labels), strict=False)))
        same = [v.name for v in matrices if np.array_equal(session.get_tensor_data(v), before[v])]
    assert same == []


@pytest.mark.parametrize("case", TRAINING, ids=[case.name for case in TRAINING])
def test_the_planned_peak_is_near_the_most_bytes_alive_at_once(case: Case) -> None:
    session = popxl.Session(popxl_programs.training(case).ir, "cpu")
    plan = session._pb_session.program.memory
    # Two pages are not worth the time of another plan.
    slack = max(8192, 0.05 * plan.frame_lower_bound_bytes)
    assert plan.peak_frame_bytes <= plan.frame_lower_bound_bytes + slack


SMALL = phased_tutorial.Options(micro_batch=8, micro_batches=2)


def losses_of(
    program: phased_tutorial.Training, start: dict[str, np.ndarray], replicas: int = 1
) -> np.ndarray:
    """Takes three steps from the weights `start`; every replica is fed the same."""
    weights = program.weights.to_dict()
    losses = []
    with popxl.Session(program.ir, "cpu") as session:
        session.write_variables_data({weights[name]: value for name, value in start.items()})
        for images, labels in itertools.islice(memory.image_batches(SMALL), 3):
            if replicas > 1:
                images, labels = (np.stack([a] * replicas, axis=1) for a in (images, labels))
            outputs = session.run({program.images: images, program.labels: labels})
            losses.append(outputs[program.losses])
    return np.array(losses)


@pytest.mark.parametrize("io_mode", ["compute", "io", "io_overlapped"])
@pytest.mark.parametrize("replicas", [1, 2])
def test_phases_train_as_the_program_in_memory_does(replicas: int, io_mode: str) -> None:
    in_memory = phased_tutorial.in_memory(SMALL)
    start = {
        name: np.random.default_rng(3).normal(0, 0.05, tensor.shape).astype(np.float32)
        for name, tensor in in_memory.weights.to_dict().items()
    }
    wanted = losses_of(in_memory, start)
    options = replace(SMALL, replicas=replicas, io_mode=io_mode)
    given = losses_of(phased_tutorial.phased(options), start, replicas)
    if replicas > 1:
        assert given.shape == (*wanted.shape, replicas)
        wanted = np.stack([wanted] * replicas, axis=-1)
    np.testing.assert_allclose(given, wanted, rtol=1e-5)
    assert wanted[-1].mean() != pytest.approx(wanted[0].mean(), rel=1e-3)


def test_recomputation_trains_the_same_in_less_memory() -> None:
    case = Case("", "transformer", "us", "train", "sgd", 1, layers=4)
    losses, peaks = [], []
    for recompute in (False, True):
        built = popxl_programs.transformer_training(case, recompute)
        with popxl.Session(built.ir, "cpu") as session:
            peaks.append(memory_plan(session).peak_frame_bytes)
            losses.append(
                [
                    session.run(dict(zip(built.inputs, (b.x, b.labels), strict=True)))[built.output]
                    for b in data.batches(case)[:3]
                ]
            )
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)
    assert peaks[1] < 0.8 * peaks[0]


def test_a_replica_keeps_half_of_what_is_shared_out() -> None:
    whole = 784 * 512 + 2 * 512 * 512 + 512 * 10 + 3 * 512
    unsharded = replace(SMALL, replicas=2, sharded_threshold=phased_tutorial.NEVER_SHARDED)
    # float16 and float32 moments; the last bias has 10 elements and is not shared out.
    assert memory.state_bytes(unsharded) == (whole + 10) * 6
    assert memory.state_bytes(replace(SMALL, replicas=2)) == (whole // 2 + 10) * 6
