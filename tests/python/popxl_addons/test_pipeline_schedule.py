"""The printed schedule of a pipeline against the graphs that it became and what a run did."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

import popxl
import popxl_addons as addons
from pando import _core, session_info
from pando.settings import use_session_settings
from popart._internal import ir as _ir
from popxl import ops
from popxl_addons.transforms.pipelining import get_op_pipeline_stage

SIZE = 4


@dataclass
class Built:
    ir: popxl.Ir
    pipeline: addons.transforms.Pipelining
    source: popxl.HostToDeviceStream
    # What each stage worked on.
    seen: list[popxl.DeviceToHostStream]


def build(devices: Sequence[int], steps: int) -> Built:
    """Stage k, on device `devices[k]`, stores a product that is what it gets, and hands it on."""
    ir = popxl.Ir()
    ir.num_host_transfers = steps
    shape = (SIZE, SIZE)
    with ir.main_graph:
        source = popxl.h2d_stream(shape, popxl.float32, "x")
        seen = [popxl.d2h_stream(shape, popxl.float32, f"seen{k}") for k in range(len(devices))]
        with addons.pipelined_execution(steps) as pipeline:
            for k, device in enumerate(devices):
                with pipeline.stage(k), popxl.ipu(device):
                    if k == 0:
                        x = ops.host_load(source)
                    with popxl.name_scope(f"stage{k}"):
                        x = x @ np.eye(SIZE, dtype=np.float32)
                    ops.host_store(seen[k], x)
                    if k + 1 < len(devices):
                        x = x.copy_to_ipu(devices[k + 1])
    return Built(ir, pipeline, source, seen)


def printed_cycles(schedule: _core.PipelineSchedule) -> list[dict[int, int]]:
    """Micro-batch by stage, for each cycle of a table in which none is left out."""
    _, heading, *rows = str(schedule).splitlines()
    assert "..." not in heading
    table = [row.split("|", 1)[1].replace("|", " ").split() for row in (heading, *rows)]
    assert table[0] == [str(cycle) for cycle in range(schedule.num_cycles)]
    return [
        {k: int(row[cycle]) for k, row in enumerate(table[1:]) if row[cycle] != "."}
        for cycle in range(schedule.num_cycles)
    ]


def stages_called(graph: _core.Graph) -> list[int]:
    """The stages that a graph calls in the order of its ops, loops unrolled."""
    stages: list[int] = []
    for op in graph.ops:
        (callee,) = op.called_graphs
        if op.kind == "Loop":
            stages += stages_called(callee) * op.attributes["trip_count"]
            continue
        assert op.kind == "Call"
        found = re.fullmatch(r"pipeline_stage_(\d+)_subgraph\(\d+\)", callee.id)
        assert found is not None
        stages.append(int(found[1]))
    return stages


@pytest.mark.parametrize(("stages", "steps"), [(1, 2), (2, 4), (3, 6), (3, 11), (4, 9)])
def test_the_table_is_what_the_graphs_call(stages: int, steps: int) -> None:
    built = build([k % 2 for k in range(stages)], steps)
    (call,) = built.ir.main_graph._pb.ops
    (graph,) = call.called_graphs
    cycles: list[dict[int, int]] = []
    begun = [0] * stages
    for k in stages_called(graph):
        # A cycle calls its stages in their order, so it ends where the next is no later one.
        if not cycles or k <= max(cycles[-1]):
            cycles.append({})
        cycles[-1][k] = begun[k]
        begun[k] += 1
    assert begun == [steps] * stages
    schedule = built.pipeline.schedule
    assert schedule.graph == graph.id
    assert printed_cycles(schedule) == cycles
    assert [stage.devices for stage in schedule.stages] == [[k % 2] for k in range(stages)]


@pytest.mark.parametrize(("devices", "steps"), [((0, 1), 5), ((0, 1, 0), 6), ((0, 1, 1, 0), 9)])
def test_the_table_is_what_the_devices_of_a_run_do(devices: Sequence[int], steps: int) -> None:
    built = build(devices, steps)
    data = np.arange(steps * SIZE * SIZE, dtype=np.float32).reshape(steps, SIZE, SIZE)
    with use_session_settings(profile=True):
        session = popxl.Session(built.ir)
    with session:
        outputs = session.run({built.source: data})
        lanes = session_info.timeline(session)
    for stream in built.seen:  # the n-th work of any stage is on micro-batch n
        np.testing.assert_array_equal(outputs[stream], data)

    cycles = printed_cycles(built.pipeline.schedule)
    done = [0] * len(devices)
    times: dict[tuple[int, int], tuple[float, float]] = {}
    assert [lane.name for lane in lanes] == ["device 0", "device 1"]
    for device, lane in enumerate(lanes):
        work = []
        for box in lane.boxes:
            found = re.fullmatch(r"MatMul 'stage(\d+)/matmul'", box.name)
            if found is not None:
                stage = int(found[1])
                work.append((stage, done[stage]))
                times[work[-1]] = box.start, box.end
                done[stage] += 1
        for cycle in cycles:
            wanted = {(k, index) for k, index in cycle.items() if devices[k] == device}
            assert set(work[: len(wanted)]) == wanted
            del work[: len(wanted)]
        assert not work
    assert done == [steps] * len(devices)
    for (stage, index), (start, _) in times.items():
        if stage > 0:
            assert times[stage - 1, index][1] <= start


def test_how_it_is_printed() -> None:
    schedule = build([0, 1, 0], 6).pipeline.schedule
    assert str(schedule) == (
        f"{schedule.graph}: 3 stages, 6 micro-batches, 8 cycles: ramp up cycles 0 to 1, "
        "main cycles 2 to 5, ramp down cycles 6 to 7\n"
        "cycle               | 0 1 | 2 3 4 5 | 6 7\n"
        "stage 0 on device 0 | 0 1 | 2 3 4 5 | . .\n"
        "stage 1 on device 1 | . 0 | 1 2 3 4 | 5 .\n"
        "stage 2 on device 0 | . . | 0 1 2 3 | 4 5\n"
    )
    assert [schedule.micro_batch(2, cycle) for cycle in (-1, 1, 2, 7, 8)] == [
        None,
        None,
        0,
        5,
        None,
    ]
    assert schedule.micro_batch(3, 4) is None and schedule.micro_batch(-1, 0) is None
    single = str(build([1], 2).pipeline.schedule)
    assert single.split(": ", 1)[1] == (
        "1 stage, 2 micro-batches, 2 cycles: no ramp up, main cycles 0 to 1, no ramp down\n"
        "cycle               | 0 1\n"
        "stage 0 on device 1 | 0 1\n"
    )


def test_main_cycles_that_are_like_their_neighbours_are_left_out() -> None:
    schedule = build([0, 1], 40).pipeline.schedule
    assert str(schedule).splitlines()[1:] == [
        "cycle               |  0 |  1  2  3  4  5  6  7  8  9 ... 31 32 33 34 35 36 37 38 39 | 40",
        "stage 0 on device 0 |  0 |  1  2  3  4  5  6  7  8  9 ... 31 32 33 34 35 36 37 38 39 |  .",
        "stage 1 on device 1 |  . |  0  1  2  3  4  5  6  7  8 ... 30 31 32 33 34 35 36 37 38 | 39",
    ]
    assert schedule.shown_cycles(0) == [0, 1, 2, None, 38, 39, 40]
    assert schedule.shown_cycles(40) == list(range(41)), "dots would take as much room as a cycle"
    assert schedule.shown_cycles(39) == [*range(19), None, *range(21, 41)]


def test_the_schedule_is_there_when_the_pipeline_is() -> None:
    ir = popxl.Ir()
    with ir.main_graph, addons.pipelined_execution(2) as pipeline:
        with pipeline.stage(0):
            x = ops.relu(popxl.constant(1.0))
            ops.relu(x)
        with pytest.raises(RuntimeError, match="wanted a pipeline that is complete"):
            _ = pipeline.schedule
    assert pipeline.schedule.steps == 2


class Inner(addons.Module):
    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        return ops.relu(x)


def test_the_stage_of_an_op() -> None:
    ir = popxl.Ir()
    while_building: list[tuple[str, int | None]] = []

    def note(op: _ir.Op) -> None:
        while_building.append((op.opType(), get_op_pipeline_stage(op)))

    with ir.main_graph as main:
        before = ops.relu(popxl.variable(1.0))
        _, inner = Inner().create_graph(before.spec)
        hook = main.register_op_created_hook(note)
        with addons.pipelined_execution(4) as pipeline:
            with pipeline.stage(0):
                x = ops.negate(before)
                with pipeline.stage(1):
                    y = ops.sin(x)
            with pipeline.stage(1):
                inner.bind().call(y)
        ops.cos(before)
        main.remove_op_created_hook(hook)
    assert while_building == [("Neg", 0), ("Sin", 1), ("Call", 1), ("Cos", None)]
    afterwards = {
        (graph.id, op.opType()): get_op_pipeline_stage(op)
        for graph in ir._pb_ir.getAllGraphs()
        for op in graph.getOps()
    }
    first, second = (stage.graph for stage in pipeline.schedule.stages)
    staged = {key: stage for key, stage in afterwards.items() if stage is not None}
    assert {key: k for key, k in staged.items() if key[1] != "Identity"} == {
        (first, "Neg"): 0,
        (second, "Sin"): 1,
        (second, "Call"): 1,
    }
    assert afterwards["", "Relu"] is None and afterwards[inner.graph._pb.id, "Relu"] is None
