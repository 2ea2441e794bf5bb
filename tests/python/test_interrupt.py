"""Ctrl-C: a real SIGINT to a child process that is inside a run which would last for years."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np

import popxl

TIMEOUT = 120

CHILD = '''
import json, signal, sys
import numpy as np
import popxl
from popxl import ops

# A parent that ignores the signal, as `nohup` and background jobs do, passes that on.
signal.signal(signal.SIGINT, signal.default_int_handler)

def steps(ir, v, w, count):
    """v += 1; w += 2: one step of many."""
    def step(v: popxl.TensorByRef, w: popxl.TensorByRef):
        ops.add_(v, popxl.constant(np.ones(4, np.int32)))
        ops.add_(w, popxl.constant(np.full(4, 2, np.int32)))
    with popxl.in_sequence():
        ops.repeat(ir.create_graph(step, v, w), count, v, w)

def program(long):
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        v = popxl.variable(np.zeros(4, np.int32), name="v")
        w = popxl.variable(np.zeros(4, np.int32), name="w")
        steps(ir, v, w, 1000)
        if long:
            # The parent sends the signal when it reads this line.
            ops.print_tensor(popxl.constant(1.0), title="inside the run")
            steps(ir, v, w, 10**15)
    return popxl.Session(ir), v, w

def report(session, v, w):
    print(json.dumps([session.get_tensor_data(t).tolist() for t in (v, w)]), flush=True)

session, v, w = program(long=True)
try:
    with session:
        for _ in range(2):
            try:
                session.run()
                print("the run ended", flush=True)
            except KeyboardInterrupt:
                report(session, v, w)
        session.write_variable_data(v, np.zeros(4, np.int32))
        session.run()
except KeyboardInterrupt:
    pass
assert not session.is_attached
report(session, v, w)
short, new_v, new_w = program(long=False)
short.write_variables_data({
    new: session.get_tensor_data(old).copy() for old, new in ((v, new_v), (w, new_w))
})
with short:
    short.run()
report(short, new_v, new_w)
'''


def test_an_interrupted_run_keeps_the_weights_and_training_goes_on() -> None:
    packages = str(Path(popxl.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": packages, "OMP_WAIT_POLICY": "passive"}
    with subprocess.Popen(
        [sys.executable, "-c", CHILD],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        # A child that does not react is killed, which ends both pipes.
        watchdog = threading.Timer(TIMEOUT, child.kill)
        watchdog.start()
        errors = []
        for line in child.stderr:
            errors.append(line)
            if line.startswith("inside the run"):
                child.send_signal(signal.SIGINT)
        output = child.stdout.read()
        code = child.wait()
        watchdog.cancel()
    assert code == 0, "".join(errors)
    assert sum(line.startswith("inside the run") for line in errors) == 3
    values = [np.array(json.loads(line)) for line in output.splitlines()]
    assert len(values) == 4, output
    for v, w in values:
        # Whole tensors of one step or of two that follow each other.
        assert np.ptp(v) == 0 and np.ptp(w) == 0
    first, second, written, short = (pair[:, 0] for pair in values)
    assert first[0] >= 1000
    # Each interrupt leaves w where v is, or one step behind.
    behind = [2 * v - w for v, w in (first, second)]
    assert behind[0] in (0, 2) and behind[1] - behind[0] in (0, 2)
    assert second[0] >= first[0] + 1000
    # After a write of zeros to v, and an interrupt that left the session's context.
    assert written[0] >= 1000 and written[1] >= second[1] + 2000
    np.testing.assert_array_equal(short, written + np.array([1000, 2000]))
