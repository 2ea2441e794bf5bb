"""What programs of tens of thousands of ops cost: `python -m benchmarks.scale`.

- `building`: `x = relu(x @ w + b)` again and again from Python, with one `w` and one `b` that the
  last op writes, so that every third op reads the same variable.
- `memory`: what the process takes for the built program, by op.
- `built and compiled`: both for that program; `twice the ops`: that of twice as many over it.
- `peak memory`: the most that the process took at a time, above what it had before, by op.
- `parts of a variable`: compiling as many ops that make values where a copy would put them, in one
  variable; `twice the parts`: compiling twice as many over it.
- `nested calls`: compiling graphs that each call the next; `gradients`: the time that
  differentiating a quarter of them takes, and the memory by tensor that there is then (each graph
  hands on what all those within it keep, so that the number of tensors grows with the square of the
  depth); `called twice`: compiling graphs that each call the next two times, so that none is
  inlined.
- `48 layers`: compiling the training program of the `compile/transformer_48` row over that of 2
  layers. `tutorial`: compiling that of the `compile/mlp_train` row.

Every number is the least of several processes of its own. Times of programs and of what they are
compared with are taken in turns.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

import popxl
from benchmarks.cases import Case
from benchmarks.figures import ROOT, save_section
from benchmarks.frameworks.popxl_programs import network_training, transformer_training
from benchmarks.table import align
from pando.session_info import open_session
from popxl import ops

Found = dict[str, float]


@dataclass(frozen=True)
class Row:
    """``wanted`` is an upper limit of ``measured``."""

    name: str
    measured: float
    wanted: float
    unit: str

    @property
    def cells(self) -> list[str]:
        return [self.name, f"{self.measured:,.2f}", f"<= {self.wanted:g}", self.unit]


def _resident_bytes() -> int:
    """What this process takes now; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * resource.getpagesize()


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def shared_variable(count: int) -> popxl.Ir:
    """About `count` ops; two variables are read by a third of them each."""
    ir = popxl.Ir()
    with ir.main_graph:
        w = popxl.variable(np.eye(4, dtype=np.float32), name="w")
        b = popxl.variable(np.zeros(4, np.float32), name="b")
        out = popxl.d2h_stream((4, 4), popxl.float32)
        x = w + b
        for _ in range(count // 3):
            x = ops.relu(x @ w + b)
        ops.add_(w, x)
        ops.host_store(out, x)
    return ir


def parts_of_a_variable(count: int) -> popxl.Ir:
    """About `count` ops: the softmax of every row of one variable is copied to a row of another."""
    ir = popxl.Ir()
    rows = count // 4
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(np.ones((rows, 4), np.float32), name="x")
        w = popxl.variable(np.zeros((rows, 4), np.float32), name="w")
        for row in range(rows):
            y = ops.softmax(ops.slice(x, row, row + 1, axis=0), axis=-1)
            ops.var_updates.copy_var_update_(ops.slice_(w, row, row + 1, axis=0), y)
    return ir


def called_twice(depth: int) -> popxl.Ir:
    """Graphs that each call the one before two times."""
    ir = popxl.Ir()
    spec = popxl.TensorSpec((4,), popxl.float32)
    graph = ir.create_graph(lambda x: ops.sin(x) * x, spec)
    for _ in range(depth):

        def caller(x: popxl.Tensor, callee: popxl.Graph = graph) -> popxl.Tensor:
            (y,) = ops.call(callee, x)
            (y,) = ops.call(callee, y)
            return y

        graph = ir.create_graph(caller, spec)
    with ir.main_graph:
        out = popxl.d2h_stream((4,), popxl.float32)
        (y,) = ops.call(graph, popxl.variable(np.ones(4, np.float32)))
        ops.host_store(out, y)
    return ir


def nested_calls(depth: int) -> tuple[popxl.Ir, popxl.Graph]:
    """Graphs that each call the one before, and the outermost."""
    ir = popxl.Ir()
    spec = popxl.TensorSpec((4,), popxl.float32)
    graph = ir.create_graph(lambda x: ops.sin(x) * x, spec)
    for _ in range(depth):

        def caller(x: popxl.Tensor, callee: popxl.Graph = graph) -> popxl.Tensor:
            (y,) = ops.call(callee, ops.exp(x))
            return ops.cos(y) * x

        graph = ir.create_graph(caller, spec)
    with ir.main_graph:
        out = popxl.d2h_stream((4,), popxl.float32)
        (y,) = ops.call(graph, popxl.variable(np.ones(4, np.float32)))
        (y,) = ops.call(graph, y)
        ops.host_store(out, y)
    return ir, graph


def _seconds(work: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure_shared(count: int) -> Found:
    shared_variable(30)
    before = _resident_bytes()
    start = time.perf_counter()
    ir = shared_variable(count)
    built = time.perf_counter() - start
    made = sum(len(graph.ops) for graph in ir._pb.graphs)
    gc.collect()
    memory = _resident_bytes() - before
    compiled = _seconds(lambda: open_session(ir))
    return {
        "build_us": 1e6 * built / made,
        "total_s": built + compiled,
        "compile_s": compiled,
        "built_kb": memory / made / 1024,
        "peak_kb": (_peak_bytes() - before) / made / 1024,
    }


def measure_parts(count: int) -> Found:
    ir = parts_of_a_variable(count)
    return {"compile_s": _seconds(lambda: open_session(ir))}


def measure_twice(depth: int) -> Found:
    ir = called_twice(depth)
    return {"compile_s": _seconds(lambda: open_session(ir))}


def measure_nested(depth: int) -> Found:
    ir, _ = nested_calls(depth)
    return {"compile_s": _seconds(lambda: open_session(ir))}


def measure_gradients(depth: int) -> Found:
    ir, graph = nested_calls(depth)
    before = _resident_bytes()
    seconds = _seconds(lambda: popxl.transforms.autodiff(graph))
    peak = _peak_bytes() - before
    return {"seconds": seconds, "bytes": peak / sum(len(g.tensors) for g in ir._pb.graphs)}


def measure_training(layers: int) -> Found:
    """Compiles a transformer with so many layers; 0: the network of the tutorial."""
    family, optimizer = ("transformer", "") if layers > 0 else ("mlp", "tutorial_adam")
    case = Case("", family, "ms", "train", optimizer, 4 if layers > 0 else 8, layers=layers)
    times = []
    for _ in range(5):
        ir = (transformer_training if case.layers > 0 else network_training)(case).ir
        times.append(_seconds(partial(open_session, ir)))
    return {"ms": 1e3 * min(times)}


def _in_process(part: str, size: str) -> Found:
    """`measure_<part>(size)` of a fresh process."""
    command = [sys.executable, "-m", "benchmarks.scale", "--measure", part, size]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    found: Found = json.loads(done.stdout)
    return found


def _least(rounds: int, *wanted: tuple[str, str]) -> list[Found]:
    """The least of each number, from processes that take turns."""
    best: list[Found] = [{} for _ in wanted]
    for _ in range(rounds):
        for least, (part, size) in zip(best, wanted, strict=True):
            for name, value in _in_process(part, size).items():
                least[name] = min(value, least.get(name, value))
    return best


def shared_rows(rounds: int, quick: bool) -> list[Row]:
    count = 3_000 if quick else 25_000
    once, twice = _least(rounds, ("shared", str(count)), ("shared", str(2 * count)))
    return [
        Row("building", once["build_us"], 10, "us an op"),
        Row("memory", once["built_kb"], 4, "KiB an op"),
        Row(f"built and compiled {count:,}", once["total_s"], 2, "s"),
        Row("twice the ops", twice["total_s"] / once["total_s"], 2.2, "times as long"),
        Row("peak memory", once["peak_kb"], 16, "KiB an op"),
        Row("peak memory of twice the ops", twice["peak_kb"], 16, "KiB an op"),
    ]


def copy_rows(rounds: int, quick: bool) -> list[Row]:
    count = 3_000 if quick else 25_000
    once, twice = _least(rounds, ("parts", str(count)), ("parts", str(2 * count)))
    return [
        Row(f"parts of a variable, {count:,}", once["compile_s"], 2, "s"),
        Row("twice the parts", twice["compile_s"] / once["compile_s"], 2.2, "times as long"),
    ]


def nested_rows(rounds: int, quick: bool) -> list[Row]:
    depth = 100 if quick else 2_000
    few = depth // 4
    calls, gradients, twice = _least(
        rounds, ("nested", str(depth)), ("gradients", str(few)), ("twice", str(depth))
    )
    return [
        Row(f"{depth:,} nested calls", calls["compile_s"], 0.3, "s"),
        Row(f"gradients of {few:,}", gradients["bytes"], 512, "bytes a tensor"),
        Row(f"time of gradients of {few:,}", gradients["seconds"], 1, "s"),
        Row(f"{depth:,} graphs called twice", twice["compile_s"], 0.6, "s"),
    ]


def layer_rows(rounds: int, quick: bool) -> list[Row]:
    many, few, tutorial = _least(
        rounds,
        ("training", "48"),
        ("training", "2"),
        ("training", "0"),
    )
    return [
        Row("48 layers over 2", many["ms"] / few["ms"], 2, "times as long"),
        Row("tutorial", tutorial["ms"], 1.5, "ms"),
    ]


MEASURES: dict[str, Callable[[str], Found]] = {
    "shared": lambda size: measure_shared(int(size)),
    "parts": lambda size: measure_parts(int(size)),
    "nested": lambda size: measure_nested(int(size)),
    "twice": lambda size: measure_twice(int(size)),
    "gradients": lambda size: measure_gradients(int(size)),
    "training": lambda size: measure_training(int(size)),
}
PARTS = {"shared": shared_rows, "copies": copy_rows, "nested": nested_rows, "layers": layer_rows}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the rows there")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--quick", action="store_true", help="small sizes: a check, not a result")
    parser.add_argument("--measure", nargs=2, metavar=("PART", "SIZE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure is not None:
        part, size = arguments.measure
        print(json.dumps(MEASURES[part](size)))
        return 0
    if arguments.rounds < 1:
        parser.error(f"--rounds {arguments.rounds}: must be at least 1")
    rows = [
        row for name in arguments.only for row in PARTS[name](arguments.rounds, arguments.quick)
    ]
    print(align(["row", "measured", "wanted", ""], [row.cells for row in rows]))
    if arguments.json is not None:
        save_section(arguments.json, "scale", [asdict(row) for row in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
