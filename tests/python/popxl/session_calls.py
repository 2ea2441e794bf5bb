"""A call of every public method and property of sessions, each made beside a run. A child process:
its argument is the table."""

from __future__ import annotations

import inspect
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import popart
from pando import _core, checkpoint, session_info
from popart.weights_io import PyWeightsIO
from popxl.internal_session import InternalSession
from popxl.session import Session
from tests.python.popxl.beside_a_run import LongProgram, Watch

Call = Callable[[LongProgram], Any]
ROW = np.zeros(4, np.int32)
_TEMPORARY = tempfile.TemporaryDirectory(prefix="pando-calls-")
FOLDER = Path(_TEMPORARY.name)


def properties(*names: str) -> dict[str, Call]:
    return {name: lambda p, name=name: getattr(target_of(p), name) for name in names}


def methods(*names: str) -> dict[str, Call]:
    return {name: lambda p, name=name: getattr(target_of(p), name)() for name in names}


def refused(p: LongProgram) -> None:
    try:
        p.session._pb_session.getReport()
    except popart.popart_exception:
        return
    raise AssertionError("getReport returned")


def set_unknown_function(p: LongProgram) -> None:
    try:
        p.session._core.set_host_function(_core.HostFunctionQueue("f"))
    except ValueError as error:
        assert "no host function 'f'" in str(error)
        return
    raise AssertionError("the program calls no function")


def outputs(p: LongProgram) -> dict[Any, Any]:
    return p.session.create_host_outputs()


def run_core(p: LongProgram) -> None:
    p.session._core.run([np.array(False)], [np.zeros(4, np.int32)])


def read_snapshot(p: LongProgram) -> None:
    snapshot = p.session._core.snapshot(0)
    assert snapshot.next_row(ROW.copy()) is not None
    snapshot.cancel()


def write_persistent(p: LongProgram) -> None:
    core = p.session._core
    core.write_persistent(0, core.state_tensors[0], ROW)


def read_persistent(p: LongProgram) -> None:
    core = p.session._core
    core.read_persistent(0, core.state_tensors[0], ROW.copy())


def save(p: LongProgram) -> None:
    checkpoint.save(p.session, FOLDER / "now", step=0)


def save_later(p: LongProgram) -> None:
    checkpoint.save_later(p.session, FOLDER / "later", step=0).wait()


def load(p: LongProgram) -> None:
    checkpoint.save(p.session, FOLDER / "loaded", step=0)
    checkpoint.load(p.session, FOLDER / "loaded")


SESSION: dict[str, Call] = {
    **properties("ir", "ir_", "is_attached", "weights_to_host_on_exit"),
    **methods("expected_inputs", "create_host_outputs", "weights_from_host", "weights_to_host"),
    **methods("__enter__"),
    "__exit__": lambda p: p.session.__exit__(None, None, None),
    "run": lambda p: p.session.run(p.inputs(is_long=False)),
    "run_with_outputs": lambda p: p.session.run_with_outputs(p.inputs(is_long=False), outputs(p)),
    "get_tensor_data": lambda p: p.session.get_tensor_data(p.v),
    "get_tensors_data": lambda p: p.session.get_tensors_data([p.v]),
    "get_variable": lambda p: p.session.get_variable("v"),
    "get_variables": lambda p: p.session.get_variables(),
    "set_variable": lambda p: p.session.set_variable("v", ROW),
    "set_variables": lambda p: p.session.set_variables({"v": ROW}),
    "write_variable_data": lambda p: p.session.write_variable_data(p.v, ROW),
    "write_variables_data": lambda p: p.session.write_variables_data({p.v: ROW}),
}
INTERNAL: dict[str, Call] = {
    **properties("program"),
    **methods("trace", "actual_peak_bytes", "weightsFromHost", "weightsToHost"),
    **methods("getSummaryReport"),
    "setEngineIsLoaded": lambda p: p.session._pb_session.setEngineIsLoaded(False),
    "writeWeights": lambda p: p.session._pb_session.writeWeights(PyWeightsIO({p.v.id: ROW})),
    "readWeights": lambda p: p.session._pb_session.readWeights(PyWeightsIO({p.v.id: ROW.copy()})),
    "getReport": refused,
}
CORE: dict[str, Call] = {
    **properties("input_streams", "output_streams", "num_replicas", "is_attached", "memory"),
    **properties("compile_report", "actual_peak_bytes", "io_report", "io_method", "persistent"),
    **properties("state_tensors", "remote_buffers", "fingerprint", "variable_ids"),
    **properties("host_functions"),
    **methods("attach", "detach", "weights_from_host", "weights_to_host", "trace", "phases"),
    **methods("timeline", "disassembly", "explain", "weights_to_host_and_detach"),
    "run": run_core,
    "set_host_function": set_unknown_function,
    "snapshot": read_snapshot,
    "read_persistent": read_persistent,
    "write_persistent": write_persistent,
    "write_remote": lambda p: p.session._core.write_remote(0, 0, 0, ROW),
    "read_remote": lambda p: p.session._core.read_remote(0, 0, 0, ROW.copy()),
}
HELPERS: dict[str, Call] = {
    name: lambda p, name=name: getattr(session_info, name)(p.session)
    for name in (
        *("memory_plan", "cache_file", "actual_peak_bytes", "op_times", "phase_times"),
        *("timeline", "pipelines", "session_report"),
    )
} | {"save": save, "save_later": save_later, "load": load}


def helpers() -> set[str]:
    """The functions of pando that take a session."""
    found = set()
    for module in (session_info, checkpoint):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            own = function.__module__ == module.__name__ and not name.startswith("_")
            if own and "session" in inspect.signature(function).parameters:
                found.add(name)
    return found


def public(kind: type, *instances: object) -> set[str]:
    names = {*dir(kind)}.union(*(vars(instance) for instance in instances))
    return {name for name in names if not name.startswith("_")} | (
        names & {"__enter__", "__exit__"}
    )


TABLES: dict[str, tuple[dict[str, Call], Callable[[LongProgram], Any], Any]] = {
    "session": (SESSION, lambda p: p.session, lambda p: public(Session, p.session)),
    "internal": (INTERNAL, lambda p: p.session._pb_session, lambda p: public(InternalSession)),
    "core": (CORE, lambda p: p.session._core, lambda p: public(_core.Session)),
    "helpers": (HELPERS, lambda p: p.session, lambda p: helpers()),
}
calls, target_of, known = TABLES[sys.argv[1]]
untested = calls.keys() ^ known(LongProgram(attach=False))
assert not untested, f"wanted an entry for each method, and no others: {untested}"
with Watch() as watch:
    for call in calls.values():
        program = LongProgram()
        watch.beside(program.run_long, lambda p=program, c=call: c(p))
        # Whatever was called: the session can be left, entered and run.
        if program.session.is_attached:
            program.session._pb_session.setEngineIsLoaded(False)
        with program.session:
            program.run_short()
print(json.dumps(sorted(calls)))
