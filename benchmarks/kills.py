"""Kills training at random instants and goes on with it: `python -m benchmarks.kills [N] [SEED]`.

Trainings of `benchmarks.kill_program` are killed with SIGKILL, some while they start, some while
they load, most between or within steps and checkpoints, and started again until they end. Counted
as faults: a complete checkpoint that is damaged or does not load, a durable one that is gone, and a
loss or a final state that differs in any bit from a training that nobody killed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pando import checkpoint

ROOT = Path(__file__).resolve().parents[1]
STEPS = 120
# The share of attempts whose instant counts from the start of the process on.
EARLY = 0.2
ATTEMPT_SECONDS = 300.0


@dataclass
class Attempt:
    """What one process printed before its end."""

    start: int | None = None
    losses: dict[int, str] = field(default_factory=dict)
    durable: int = 0
    end: str = ""
    killed: bool = False
    error: str = ""
    start_seconds: float = 0.0
    seconds: float = 0.0  # of training


@dataclass
class Summary:
    """What came of all the kills."""

    kills: int = 0
    kills_before_training: int = 0
    trainings: int = 0
    resumes: int = 0
    checked_checkpoints: int = 0
    unloadable: list[str] = field(default_factory=list)
    diverging: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.unloadable or self.diverging)

    def __str__(self) -> str:
        lines = [
            f"kills                   {self.kills} ({self.kills_before_training} before the first "
            "step of an attempt)",
            f"trainings ended         {self.trainings}",
            f"resumes                 {self.resumes}",
            f"checkpoints checked     {self.checked_checkpoints}",
            f"unloadable checkpoints  {len(self.unloadable)}",
            f"diverging resumes       {len(self.diverging)}",
            *(f"  {fault}" for fault in [*self.unloadable, *self.diverging]),
        ]
        return "\n".join(lines)


def read_attempt(lines: Iterable[str]) -> Attempt:
    """What `kill_program` printed; lines that were cut off do not count."""
    attempt = Attempt()
    for line in lines:
        match line.split():
            case ["from", step, "."]:
                attempt.start = int(step)
            case ["step", step, loss, "."]:
                attempt.losses[int(step)] = loss
            case ["saved", step, "."]:
                attempt.durable = int(step)
            case ["end", checksum, "."]:
                attempt.end = checksum
            case ["exit", status, "."]:
                attempt.killed = int(status) == -signal.SIGKILL
                if int(status) not in (0, -signal.SIGKILL):
                    attempt.error = f"exit status {status}"
    return attempt


class Nursery:
    """The process that forks trainings."""

    def __init__(self, errors: Path) -> None:
        paths = [str(ROOT), *filter(None, sys.path)]
        errors.touch()
        self._errors = errors.open()
        with errors.open("a") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.kill_program"],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=ATTEMPT_SECONDS)
        self._reader.join()
        self._errors.close()

    def _next_line(self, seconds: float) -> str:
        line = self._lines.get(timeout=max(seconds, 0))
        if line is None:
            raise RuntimeError(f"the process that forks trainings ended:\n{self._new_errors()}")
        return line

    def _new_errors(self) -> str:
        return self._errors.read().strip()[-2000:]

    def run(
        self, folder: Path, steps: int, delay: float | None = None, early: bool = False
    ) -> Attempt:
        """Kills the process `delay` seconds after it began to train, or with `early` to run."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{folder} {steps}\n")
        self._process.stdin.flush()
        begin = start = time.monotonic()
        end = begin + ATTEMPT_SECONDS
        lines: list[str] = []
        pid = -1
        while not lines or not lines[-1].startswith("exit "):
            try:
                line = self._next_line(end - time.monotonic())
            except queue.Empty:
                if end >= begin + ATTEMPT_SECONDS:
                    raise RuntimeError("a training does not end") from None
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    signal.pidfd_send_signal(pid, signal.SIGKILL)
                end = begin + ATTEMPT_SECONDS
                continue
            lines.append(line)
            if line.startswith("pid "):
                # Unlike its number, this stays that of the process when it ends.
                pid = os.pidfd_open(int(line.split()[1]))
            if line.startswith("from "):
                start = time.monotonic()
            if delay is not None and line.startswith("pid " if early else "from "):
                end = time.monotonic() + delay
        os.close(pid)
        attempt = read_attempt(lines)
        if attempt.error:
            attempt.error += f": {self._new_errors()}"
        attempt.start_seconds, attempt.seconds = start - begin, time.monotonic() - start
        return attempt


class Trainings:
    """Runs trainings and compares them with one that nobody killed."""

    def __init__(self, folder: Path, steps: int) -> None:
        self._folder, self._steps = folder, steps
        self.summary = Summary()
        self._nursery = Nursery(folder / "errors.txt")
        self._straight = self._nursery.run(folder / "straight", steps)
        if len(self._straight.losses) != steps:
            raise RuntimeError(f"the training that nobody kills failed: {self._straight.error}")

    def close(self) -> None:
        self._nursery.close()

    def train(self, rng: np.random.Generator, kills: int) -> None:
        """One training, killed until it ends or `kills` kills have been spent in all."""
        summary = self.summary
        folder = self._folder / f"training-{summary.trainings}"
        durable = 0
        while True:
            if summary.kills < kills:
                early = bool(rng.random() < EARLY)
                longest = self._straight.start_seconds if early else 0.5 * self._straight.seconds
                delay = rng.uniform(0, longest)
                attempt = self._nursery.run(folder, self._steps, delay, early)
            else:
                attempt = self._nursery.run(folder, self._steps)
            summary.kills += attempt.killed
            summary.kills_before_training += attempt.killed and not attempt.losses
            fault = self._examine(folder, attempt, durable)
            if fault or not attempt.killed:
                break
            durable = max(durable, attempt.durable)
        summary.trainings += 1

    def _examine(self, folder: Path, attempt: Attempt, durable: int) -> bool:
        """Whether a fault was found."""
        summary = self.summary
        faults = len(summary.unloadable) + len(summary.diverging)
        if attempt.error:
            summary.unloadable.append(f"{folder.name}: {attempt.error}")
        if attempt.start is not None:
            summary.resumes += attempt.start > 0
            if attempt.start < durable:
                summary.unloadable.append(
                    f"{folder.name}: began at step {attempt.start}; the checkpoint of step "
                    f"{durable} was durable"
                )
        # Also empty folders, which no writer may leave and which loading passes over.
        for path in sorted((folder / "checkpoints").glob("step-*")):
            summary.checked_checkpoints += 1
            try:
                checkpoint.verify(path)
            except checkpoint.CheckpointError as error:
                summary.unloadable.append(str(error))
        wrong = [s for s, loss in attempt.losses.items() if loss != self._straight.losses[s]]
        if wrong:
            summary.diverging.append(
                f"{folder.name}: resumed at step {attempt.start}, differs from step {wrong[0]} on"
            )
        elif not attempt.killed and not attempt.error and attempt.end != self._straight.end:
            summary.diverging.append(f"{folder.name}: the final state differs")
        return len(summary.unloadable) + len(summary.diverging) > faults


def kill_trainings(
    folder: Path, kills: int, seed: int, steps: int = STEPS, progress: bool = False
) -> Summary:
    """Kills trainings in `folder` `kills` times."""
    trainings = Trainings(folder, steps)
    rng = np.random.default_rng(seed)
    summary = trainings.summary
    try:
        while summary.kills < kills and summary.is_clean:
            trainings.train(rng, kills)
            if progress:
                print(f"{summary.kills} kills, {summary.trainings} trainings", flush=True)
    finally:
        trainings.close()
    return summary


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="./dev kills", description=__doc__)
    parser.add_argument("kills", nargs="?", type=int, default=200, help="default: %(default)s")
    parser.add_argument("seed", nargs="?", type=int, default=1, help="default: %(default)s")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="pando-kills-") as folder:
        summary = kill_trainings(Path(folder), options.kills, options.seed, progress=True)
    print(summary)
    return 0 if summary.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
