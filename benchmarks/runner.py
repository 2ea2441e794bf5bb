"""Starts one worker per framework and interleaves their blocks, so that drift hits all alike."""

from __future__ import annotations

import itertools
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.cases import FRAMEWORKS, Case
from benchmarks.quiet import QUIET_SHARE, NeighbourWatch

SCALE = {"us": 1e6, "ms": 1e3}
MIB = 2**20
ROOT = Path(__file__).resolve().parent.parent


COMPILED = "torch_compile"
# Also a slow program gets so many.
LEAST_BLOCKS = 3
# The Pando of another checkout, with the programs of this one.
BEFORE = "before"
# Two processes a side: one may keep a slow place in memory or in the order of turns for its life.
AGAINST = ("pando", BEFORE, BEFORE, "pando")


@dataclass(frozen=True)
class Settings:
    """``packages``: the folder whose ``pando`` and ``popxl`` the framework BEFORE imports.

    ``row_seconds``: a program whose blocks take longer than that together gets fewer rounds.
    """

    threads: int
    packages: Path | None = None
    rounds: int = 7
    compile_rounds: int = 3
    block_seconds: float = 0.3
    row_seconds: float = 20.0
    timeout_seconds: float = 600.0
    retry_disturbed: bool = True
    # Every row in new processes, which also say what memory they take, without stored compilations.
    fresh: bool = False


@dataclass(frozen=True)
class Sample:
    """One block: seconds a step, the share of the machine that other processes took, and the
    seconds of the whole block."""

    seconds: float
    others: float
    whole: float

    @property
    def quiet(self) -> bool:
        return self.others <= QUIET_SHARE


@dataclass
class Row:
    """Medians by framework in ``case.unit``; ``None`` where absent or failed.

    ``spread`` is (largest - smallest) / median of the blocks: how far to trust the median.
    ``disturbed`` is the share of the machine that others took in the worst block that counted.
    ``first_step``: seconds from the begin of building to the first result on the host. Where
    workers are fresh, ``started`` are the bytes resident once the framework was imported, ``peak``
    the most.
    """

    case: Case
    medians: dict[str, float | None] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    spread: dict[str, float] = field(default_factory=dict)
    disturbed: dict[str, float] = field(default_factory=dict)
    fresh: bool = False
    first_step: dict[str, float] = field(default_factory=dict)
    started: dict[str, int] = field(default_factory=dict)
    peak: dict[str, int] = field(default_factory=dict)

    def add(self, framework: str, samples: list[Sample], wanted: int) -> None:
        """Takes the median of the ``wanted`` samples that others disturbed least.

        Of several processes of a framework the one with the least median counts.
        """
        kept = sorted(samples, key=lambda sample: max(sample.others, QUIET_SHARE))[:wanted]
        times = [sample.seconds for sample in kept]
        median = statistics.median(times)
        shown = median * SCALE[self.case.unit]
        least = self.medians.get(framework)
        if least is not None and least <= shown:
            return
        self.medians[framework] = shown
        self.spread[framework] = round((max(times) - min(times)) / median, 3)
        self.disturbed.pop(framework, None)
        worst = max(sample.others for sample in kept)
        if worst > QUIET_SHARE:
            self.disturbed[framework] = round(worst, 3)

    def to_json(self) -> dict[str, Any]:
        medians = {name: self.medians.get(name) for name in (*FRAMEWORKS, *self.medians)}
        row: dict[str, Any] = {"name": self.case.name, "unit": self.case.unit, **medians}
        row |= {"notes": self.notes, "spread": self.spread, "disturbed": self.disturbed}
        if not self.fresh:
            return row
        added = {name: self.peak[name] - self.started[name] for name in self.peak}
        resources = {
            "first_step_seconds": {name: round(s, 4) for name, s in self.first_step.items()},
            "added_mebibytes": {name: round(n / MIB, 1) for name, n in added.items()},
            "peak_mebibytes": {name: round(n / MIB, 1) for name, n in self.peak.items()},
        }
        return row | {"mode": self.case.mode} | resources


class WorkerDied(Exception):
    pass


class WorkerProcess:
    """The near end of one worker; restarted when it crashed or hung."""

    def __init__(self, framework: str, settings: Settings, log_path: Path) -> None:
        self.framework = framework
        self._settings = settings
        self._log_path = log_path
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        return (self._process or self._start()).pid

    def ask(self, **request: Any) -> dict[str, Any]:
        """Sends a request, waits for the reply; raises WorkerDied with the reason if none comes."""
        process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            self._raise_dead("died")
        ready, _, _ = select.select([process.stdout], [], [], self._settings.timeout_seconds)
        if not ready:
            self._raise_dead(f"no answer in {self._settings.timeout_seconds:.0f} s")
        line = process.stdout.readline()
        if not line:
            self._raise_dead("died")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def take_over(self, other: WorkerProcess) -> None:
        """Stops the process of this worker and goes on with that of the other one."""
        self.stop()
        self._process, other._process = other._process, None
        self._log_path = other._log_path

    def _start(self) -> subprocess.Popen[str]:
        adaptor = "pando" if self.framework == BEFORE else self.framework
        command = [sys.executable, "-m", "benchmarks.worker", adaptor]
        environment = _environment(self._settings.threads)
        if self._settings.fresh:
            environment["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
        if self.framework == BEFORE:
            environment["PYTHONPATH"] = str(self._settings.packages)
        with self._log_path.open("w") as log:
            self._process = subprocess.Popen(
                [*command, str(self._settings.threads)],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        return self._process

    def _raise_dead(self, what: str) -> None:
        code = self._process.poll() if self._process else None
        self.stop()
        log = self._log_path.read_text(errors="replace").strip().splitlines()
        tail = f": {log[-1]}" if log else ""
        status = f" (exit status {code})" if code is not None else ""
        raise WorkerDied(f"worker {what}{status}{tail}")


def _environment(threads: int) -> dict[str, str]:
    count = str(threads)
    names = (
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "NPROC",  # XLA's CPU client
        "TORCHINDUCTOR_COMPILE_THREADS",
    )
    return {**os.environ, **dict.fromkeys(names, count), "JAX_PLATFORMS": "cpu"}


class Runner:
    def __init__(self, settings: Settings, frameworks: tuple[str, ...] = FRAMEWORKS) -> None:
        self._settings = settings
        self._logs = tempfile.TemporaryDirectory(prefix="pando-bench-")
        self._log_number = itertools.count()
        self._workers = [self._new_worker(name) for name in frameworks]
        self._fastest_form: dict[Case, str] = {}

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.stop()
        self._logs.cleanup()

    def _new_worker(self, framework: str) -> WorkerProcess:
        log = Path(self._logs.name) / f"{next(self._log_number)}-{framework}.log"
        return WorkerProcess(framework, self._settings, log)

    def measure(self, case: Case) -> Row:
        """Builds the case everywhere, then takes one block of each framework per round.

        Blocks that other processes disturbed are taken again, up to twice as many rounds more.
        """
        row = Row(case, fresh=self._settings.fresh)
        samples: dict[WorkerProcess, list[Sample]] = {
            worker: [] for worker in self._workers if self._build(worker, row)
        }
        rounds = (
            self._settings.rounds if case.family != "compile" else self._settings.compile_rounds
        )
        for number in range(3 * rounds):
            for worker in self._workers:
                taken = samples.get(worker)
                if taken is None or worker.framework in row.failures:
                    continue
                if self._enough(taken, rounds) or (
                    number >= rounds and not self._settings.retry_disturbed
                ):
                    continue
                sample = self._block(worker, row)
                if sample is not None:
                    taken.append(sample)
        for worker in self._workers:
            if samples.get(worker) and worker.framework not in row.failures:
                row.add(worker.framework, samples[worker], rounds)
                self._end(worker, row)
        return row

    def _enough(self, taken: list[Sample], rounds: int) -> bool:
        quiet = sum(sample.quiet for sample in taken)
        seconds = sum(sample.whole for sample in taken)
        allowed = self._settings.row_seconds
        slow = seconds >= allowed and (quiet >= LEAST_BLOCKS or seconds >= 3 * allowed)
        return quiet >= rounds or (slow and len(taken) >= LEAST_BLOCKS)

    def _block(self, worker: WorkerProcess, row: Row) -> Sample | None:
        watch = NeighbourWatch(worker.pid)
        start = time.perf_counter()
        reply = self._try(worker, row, do="block", seconds=self._settings.block_seconds)
        whole = time.perf_counter() - start
        return None if reply is None else Sample(reply["seconds"], watch.share(), whole)

    def _end(self, worker: WorkerProcess, row: Row) -> None:
        if not self._settings.fresh:
            self._try(worker, row, do="drop")
            return
        reply = self._try(worker, row, do="memory")
        if reply is not None:
            row.peak[worker.framework] = reply["peak"]
        worker.stop()

    def _start_afresh(self, worker: WorkerProcess, row: Row) -> bool:
        worker.stop()
        reply = self._try(worker, row, do="start", case=row.case.to_json())
        if reply is not None:
            row.started[worker.framework] = reply["resident"]
        return reply is not None

    def _build(self, worker: WorkerProcess, row: Row) -> bool:
        if self._settings.fresh and worker.framework == COMPILED and not row.case.form:
            return self._build_fastest_form(worker, row)
        if self._settings.fresh and not self._start_afresh(worker, row):
            return False
        reply = self._try(worker, row, do="build", case=row.case.to_json())
        if reply is not None and reply["note"]:
            row.notes[worker.framework] = reply["note"]
        if reply is not None and "first_seconds" in reply:
            row.first_step[worker.framework] = reply["first_seconds"]
        return reply is not None

    def _build_fastest_form(self, worker: WorkerProcess, row: Row) -> bool:
        """Each form in a process of its own, of which that of the fastest stays.

        Rows that differ in what Pando does have the same fastest form.
        """
        peers_case = replace(row.case, name="", front_end="", fit_in="")
        known = self._fastest_form.get(peers_case)
        best: tuple[float, Row] | None = None
        trials: list[Row] = []
        for form in [known] if known else self._forms(worker, row):
            trial = Row(replace(row.case, form=form), fresh=True)
            trials.append(trial)
            candidate = self._new_worker(COMPILED)
            seconds = self._trial(candidate, trial)
            if seconds is not None and (best is None or seconds < best[0]):
                best = seconds, trial
                worker.take_over(candidate)
            candidate.stop()
        # Where none works: why the first one does not.
        chosen = best[1] if best is not None else (trials or [row])[0]
        for name in ("notes", "failures", "first_step", "started"):
            getattr(row, name).update(getattr(chosen, name))
        if best is not None:
            self._fastest_form[peers_case] = chosen.case.form
        return best is not None

    def _trial(self, worker: WorkerProcess, row: Row) -> float | None:
        """Builds a form and returns the seconds of a step, or None where it does not work."""
        blocks = [self._block(worker, row) for _ in range(2)] if self._build(worker, row) else []
        times = [block.seconds for block in blocks if block is not None]
        return min(times) if len(times) == 2 else None

    def _try(self, worker: WorkerProcess, row: Row, **request: Any) -> dict[str, Any] | None:
        try:
            reply = worker.ask(**request)
        except WorkerDied as error:
            reply = {"ok": False, "absent": False, "error": str(error)}
        if reply["ok"]:
            return reply
        if reply["absent"]:
            row.notes[worker.framework] = reply["error"]
        else:
            row.failures[worker.framework] = reply["error"]
        return None

    def _forms(self, worker: WorkerProcess, row: Row) -> list[str]:
        """Those in which the worker can build the case."""
        reply = self._try(worker, row, do="forms", case=row.case.to_json())
        return [] if reply is None else list(reply["forms"])


def run_cases(cases: list[Case], settings: Settings, frameworks: tuple[str, ...]) -> Iterator[Row]:
    """Measures every case, with a progress bar on stderr."""
    with Runner(settings, frameworks) as runner, tqdm(cases, file=sys.stderr, unit="row") as bar:
        for case in bar:
            bar.set_description(case.name)
            row = runner.measure(case)
            for framework, reason in row.failures.items():
                tqdm.write(f"{case.name}: {framework} failed: {reason}", file=sys.stderr)
            yield row
