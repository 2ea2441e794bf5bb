"""What the executable cache saves: `python -m benchmarks.cache`.

For transformers of several depths (the training program of the `session/transformer_N` rows) the
time of `popxl.Session(ir)`, compiled and from the cache, in turns, each time on a new Ir. `core` is
the part of it in the C++ library; `start` also counts the first entry of the session: preparing
kernels and copying the weights to the device, which no cache saves.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import popxl
from benchmarks.cases import Case
from benchmarks.frameworks.popxl_programs import training
from pando.session_info import cache_file

Times = tuple[float, float, float]


def timed_session(layers: int, optimizer: str, folder: Path | None) -> tuple[Times, popxl.Session]:
    """Seconds of the session, of the core's part, and of the session with its first entry."""
    ir = training(Case("", "transformer", "ms", "train", optimizer, 4, layers=layers)).ir
    options = ir._pb_ir.getSessionOptions()
    options.enableEngineCaching = folder is not None
    if folder is not None:
        options.cachePath = str(folder)
    start = time.perf_counter()
    session = popxl.Session(ir)
    made = time.perf_counter()
    session.weights_to_host_on_exit = False
    with session:
        entered = time.perf_counter()
    core = session._pb_session.program.compile_report.seconds
    return (made - start, core, entered - start), session


def compare(layers: int, optimizer: str, rounds: int) -> None:
    """Prints one row: medians over rounds that take the two ways in turns."""
    fresh: list[Times] = []
    cached: list[Times] = []
    with tempfile.TemporaryDirectory() as name:
        _, session = timed_session(layers, optimizer, Path(name))
        (file,) = Path(name).iterdir()
        for _ in range(rounds):
            fresh.append(timed_session(layers, optimizer, None)[0])
            times, session = timed_session(layers, optimizer, Path(name))
            cached.append(times)
            if cache_file(session) != file:
                raise SystemExit(f"{layers} layers: the program did not come from {file}")
        size = file.stat().st_size
    columns = []
    for compiled, read in zip(zip(*fresh, strict=True), zip(*cached, strict=True), strict=True):
        before, after = statistics.median(compiled) * 1e3, statistics.median(read) * 1e3
        columns.append(f"{before:8.2f} {after:8.2f} {before / after:6.1f}x")
    print(f"{layers:6} {optimizer or 'sgd':5} {size / 1024:8.0f} KiB  " + "  ".join(columns))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cache", description=__doc__)
    parser.add_argument("--layers", type=int, nargs="+", default=[2, 12, 48], metavar="N")
    parser.add_argument("--optimizers", nargs="+", default=["", "tutorial_adam"], metavar="NAME")
    parser.add_argument("--rounds", type=int, default=9, help="default: %(default)s")
    arguments = parser.parse_args()
    heads = "  ".join(
        f"{name + ' ms':>8} {'cached':>8} {'ratio':>7}" for name in ("session", "core", "start")
    )
    print(f"layers update     file      {heads}")
    for optimizer in arguments.optimizers:
        for layers in arguments.layers:
            compare(layers, optimizer, arguments.rounds)


if __name__ == "__main__":
    main()
