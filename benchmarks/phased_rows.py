"""Rows of the benchmarks of training in phases: a step beside what it computes and moves."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.figures import save_section
from pando.disk_bandwidth import Bandwidth
from pando.process_memory import parse_bytes
from pando_demo.gpt_network import SHAPES
from pando_demo.gpt_training import IoCounts

Row = dict[str, object]

# What every row begins with, and its heading.
_FORMAT = (
    "{name:8} {tokens:7} {step_seconds:8.2f} {computing_seconds:9.2f} {moving_seconds:7.2f} "
    "{ratio:6.2f}x {waiting_seconds:8.2f} {gigabytes_moved:9.2f}"
)
_HEADING = "size      tokens     step computing  moving   ratio  waiting GB moved"


class Bounds:
    """What a step cannot be faster than, measured several times.

    Args:
        measure: Gives the seconds that a step computes, and the bandwidth of its files.
    """

    def __init__(self, measure: Callable[[], tuple[float, Bandwidth]]) -> None:
        self._measure = measure
        self._measured: list[tuple[float, Bandwidth]] = []

    def measure(self) -> None:
        """Measure once more."""
        self._measured.append(self._measure())

    @property
    def computing(self) -> float:
        return statistics.mean(seconds for seconds, _ in self._measured)

    @property
    def reading(self) -> float:
        """Bytes a second."""
        return statistics.mean(disk.reading for _, disk in self._measured)

    @property
    def writing(self) -> float:
        """Bytes a second."""
        return statistics.mean(disk.writing for _, disk in self._measured)


def make_row(name: str, tokens: int, seconds: Sequence[float], io: IoCounts, bounds: Bounds) -> Row:
    """The columns that all rows have, of steps that took `seconds` and together moved `io`."""
    steps = len(seconds)
    step = statistics.median(seconds)
    moving = (io.bytes_loaded / bounds.reading + io.bytes_stored / bounds.writing) / steps
    return {
        "name": name,
        "tokens": tokens,
        "step_seconds": step,
        "computing_seconds": bounds.computing,
        "moving_seconds": moving,
        "ratio": step / max(bounds.computing, moving),
        "waiting_seconds": io.waiting_seconds / steps,
        "gigabytes_moved": (io.bytes_loaded + io.bytes_stored) / steps / 1e9,
    }


def make_parser(prog: str, description: str | None, memory: int) -> argparse.ArgumentParser:
    """A parser of the arguments that both benchmarks have; `memory` is the default limit."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("--params", nargs="+", default=["25M", "124M"], metavar="SIZE")
    parser.add_argument("--folder", type=Path, default=Path("phased-benchmark"))
    parser.add_argument("--memory", type=parse_bytes, default=memory, help="e.g. 4GiB")
    parser.add_argument("--micro-batch", type=int, default=4, help="sequences of 256 tokens")
    parser.add_argument("--micro-batches", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the rows there")
    return parser


def run(
    given: argparse.Namespace,
    section: str,
    units: str,
    more_columns: tuple[str, str],
    measure: Callable[[str], Row],
) -> None:
    """Measures and prints a row for each size, and saves them where that is asked for.

    `more_columns` are the heading and the format of what `measure` adds to the common columns.
    """
    heading, more_format = more_columns
    print(f"sizes: {', '.join(SHAPES)}; seconds per step; {units}")
    print(_HEADING + heading)
    rows = []
    for size in given.params:
        rows.append(measure(size))
        print((_FORMAT + more_format).format(**rows[-1]))
    if given.json is not None:
        save_section(given.json, section, rows)
