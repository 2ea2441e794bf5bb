"""The programs that the benchmarks time do what their names say."""

from __future__ import annotations

import numpy as np
import pytest

import popxl
from benchmarks import data
from benchmarks.cases import Case, all_cases
from benchmarks.frameworks import popxl_programs

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
    memory = session._pb_session.program.memory
    assert memory.peak_frame_bytes <= 1.05 * memory.frame_lower_bound_bytes
