"""Programs that last until they are stopped, and what to do meanwhile. For child processes."""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import popxl
from popxl import ops

# A child that hangs says where, and ends.
LONGEST_SECONDS = 200
FOR_YEARS = 10**15


def run_child(script: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a script that imports this module."""
    folders = [str(Path(popxl.__file__).parents[1]), str(Path(__file__).parents[3])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=2 * LONGEST_SECONDS,
        check=False,
        **options,
    )


class LongProgram:
    """v += 1, and a run of years when the input says so; then the line `inside` is on stderr."""

    def __init__(self, attach: bool = True) -> None:
        ir = popxl.Ir()
        with ir.main_graph, popxl.in_sequence():
            self.is_long = popxl.h2d_stream((), popxl.bool)
            self.output = popxl.d2h_stream((4,), popxl.int32)
            self.v = popxl.variable(np.zeros(4, np.int32), name="v")
            buffer = popxl.remote_buffer((4,), popxl.int32, 1)
            ops.remote_store(buffer, 0, self.v)
            ops.add_(self.v, popxl.constant(np.ones(4, np.int32)))
            one = popxl.constant(np.ones(4, np.int32))

            def add(x: popxl.Tensor, y: popxl.Tensor) -> popxl.Tensor:
                return x + y

            def count_long(x: popxl.Tensor, y: popxl.Tensor) -> popxl.Tensor:
                ops.print_tensor(y, title="inside")
                (result,) = ops.repeat(ir.create_graph(add, x, y), FOR_YEARS, x, y)
                return result

            branches = [ir.create_graph(f, one, one) for f in (count_long, add)]
            (result,) = ops.conditional(
                ops.host_load(self.is_long),
                *branches,
                then_inputs=[one, one],
                else_inputs=[one, one],
            )
            ops.host_store(self.output, result)
        self.session = popxl.Session(ir)
        if attach:
            self.session.__enter__()

    def inputs(self, is_long: bool) -> dict[popxl.HostToDeviceStream, Any]:
        return {self.is_long: np.array(is_long)}

    def run_long(self) -> None:
        self.session.run(self.inputs(is_long=True))

    def run_short(self) -> None:
        results = self.session.run(self.inputs(is_long=False))
        np.testing.assert_array_equal(results[self.output], [2] * 4)


class Watch:
    """Reads stderr in place of the user, to know when a run has begun."""

    def __init__(self) -> None:
        # A parent that ignores the signal, as `nohup` and background jobs do, passes that on.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._stderr = os.dup(2)
        faulthandler.dump_traceback_later(LONGEST_SECONDS, exit=True, file=self._stderr)
        read, write = os.pipe()
        os.dup2(write, 2)
        self._lines = os.fdopen(read, "rb", buffering=0)
        # Threads change only when one waits: what follows an event happens before its waiter goes.
        sys.setswitchinterval(1)

    def wait_for_a_run(self, replicas: int = 1) -> None:
        for _ in range(replicas):
            while b"inside" not in self._lines.readline():
                pass

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        os.dup2(self._stderr, 2)
        faulthandler.cancel_dump_traceback_later()

    def beside(self, run: Callable[[], Any], call: Callable[[], Any]) -> Any:
        """What `call` returns, called by a second thread while this one is in `run`; then a third
        thread interrupts the run, for which it needs the interpreter."""
        calling = threading.Event()
        results: list[Any] = []

        def second() -> None:
            self.wait_for_a_run()
            calling.set()
            try:
                results.append(call())
            except BaseException as error:
                results.append(error)

        def third() -> None:
            calling.wait()
            os.kill(os.getpid(), signal.SIGINT)

        threads = [threading.Thread(target=work) for work in (second, third)]
        for thread in threads:
            thread.start()
        with suppress(KeyboardInterrupt):
            run()
            raise AssertionError("the run ended by itself")
        for thread in threads:
            thread.join()
        (result,) = results
        if isinstance(result, BaseException):
            raise result
        return result
