"""One framework in one process: builds programs and times blocks of steps on request.

Requests and replies are JSON, one a line, over a pair of pipes. Between requests the process
blocks in ``readline``, so it takes nothing from the worker whose turn it is.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any, TextIO

from benchmarks.cases import Case
from benchmarks.denormals import flush_denormals
from benchmarks.program import NotMeasured, Program

ADAPTORS = {
    "pando": "benchmarks.frameworks.pando_popxl",
    # Pando, for rows of that front end.
    "poptorch": "benchmarks.frameworks.pando_poptorch",
    "torch_eager": "benchmarks.frameworks.torch_eager",
    "torch_compile": "benchmarks.frameworks.torch_compile",
    "jax": "benchmarks.frameworks.jax_jit",
    "mlx": "benchmarks.frameworks.mlx_cpu",
    "library_sum": "benchmarks.frameworks.library_sum",
    "lower_bound": "benchmarks.frameworks.lower_bound",
}


class Worker:
    def __init__(self, framework: str, threads: int) -> None:
        self._framework = framework
        self._threads = threads
        self._program: Program | None = None

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carries out one request; a failure is a reply, never the end of the process."""
        try:
            if request["do"] == "start":
                return self._start(Case(**request["case"]))
            if request["do"] == "forms":
                case = Case(**request["case"])
                return {"ok": True, "forms": self._adaptor(case).forms(case)}
            if request["do"] == "memory":
                return {"ok": True, "peak": status_bytes("VmHWM")}
            if request["do"] == "build":
                return self._build(Case(**request["case"]))
            if request["do"] == "block":
                assert self._program is not None, "a block was asked for before a build"
                return {"ok": True, "seconds": self._program.time_block(request["seconds"])}
            self._drop()
            return {"ok": True}
        except NotMeasured as reason:
            return {"ok": False, "absent": True, "error": str(reason)}
        except ImportError as error:
            return {"ok": False, "absent": True, "error": f"not installed: {error}"}
        except Exception as error:
            traceback.print_exc()
            text = str(error).strip().splitlines()
            first = text[0] if text else ""
            return {"ok": False, "absent": False, "error": f"{type(error).__name__}: {first}"}

    def _adaptor(self, case: Case) -> Any:
        is_poptorch = self._framework == "pando" and case.front_end == "poptorch"
        return importlib.import_module(ADAPTORS["poptorch" if is_poptorch else self._framework])

    def _start(self, case: Case) -> dict[str, Any]:
        """Imports what runs the case, and says what the process takes then."""
        self._adaptor(case)
        return {"ok": True, "resident": status_bytes("VmRSS")}

    def _build(self, case: Case) -> dict[str, Any]:
        self._drop()
        adaptor = self._adaptor(case)
        start = time.perf_counter()
        self._program = adaptor.build(case, self._threads)
        assert self._program is not None
        reply = {"ok": True, "note": self._program.note, "first": self._program.first}
        if self._program.first_at is not None:
            reply["first_seconds"] = self._program.first_at - start
        return reply

    def _drop(self) -> None:
        if self._program is not None:
            self._program.close()
            self._program = None


def status_bytes(field: str) -> int:
    """What the kernel says of this process: VmRSS, bytes resident now, or VmHWM, their peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status: no line {field}")


def _private_stdout() -> TextIO:
    """Keeps stdout for replies: whatever a library prints goes to stderr instead."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return replies


def main() -> None:
    framework, threads = sys.argv[1], int(sys.argv[2])
    allowed = sorted(os.sched_getaffinity(0))
    if threads < len(allowed):
        # XLA and MLX size their pools by the cores they may use, not by a setting.
        os.sched_setaffinity(0, allowed[:threads])
    flush_denormals()
    replies = _private_stdout()
    worker = Worker(framework, threads)
    for line in sys.stdin:
        replies.write(json.dumps(worker.handle(json.loads(line))) + "\n")


if __name__ == "__main__":
    main()
