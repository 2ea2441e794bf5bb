"""Starts one worker per framework and interleaves their blocks, so that drift hits all alike."""

from __future__ import annotations

import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.cases import FRAMEWORKS, Case
from benchmarks.quiet import QUIET_SHARE, NeighbourWatch

SCALE = {"us": 1e6, "ms": 1e3}
ROOT = Path(__file__).resolve().parent.parent


# The Pando of another checkout, with the programs of this one.
BEFORE = "before"


@dataclass(frozen=True)
class Settings:
    """``packages``: the folder whose ``pando`` and ``popxl`` the framework BEFORE imports."""

    threads: int
    packages: Path | None = None
    rounds: int = 7
    compile_rounds: int = 3
    block_seconds: float = 0.3
    timeout_seconds: float = 600.0
    retry_disturbed: bool = True


@dataclass(frozen=True)
class Sample:
    """One block: seconds a step, and the share of the machine that other processes took."""

    seconds: float
    others: float

    @property
    def quiet(self) -> bool:
        return self.others <= QUIET_SHARE


@dataclass
class Row:
    """Medians by framework in ``case.unit``; ``None`` where absent or failed.

    ``spread`` is (largest - smallest) / median of the blocks: how far to trust the median.
    ``disturbed`` is the share of the machine that others took in the worst block that counted.
    """

    case: Case
    medians: dict[str, float | None] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    spread: dict[str, float] = field(default_factory=dict)
    disturbed: dict[str, float] = field(default_factory=dict)

    def add(self, framework: str, samples: list[Sample], wanted: int) -> None:
        """Takes the median of the ``wanted`` samples that others disturbed least."""
        kept = sorted(samples, key=lambda sample: max(sample.others, QUIET_SHARE))[:wanted]
        times = [sample.seconds for sample in kept]
        median = statistics.median(times)
        self.medians[framework] = median * SCALE[self.case.unit]
        self.spread[framework] = round((max(times) - min(times)) / median, 3)
        worst = max(sample.others for sample in kept)
        if worst > QUIET_SHARE:
            self.disturbed[framework] = round(worst, 3)

    def to_json(self) -> dict[str, Any]:
        medians = {name: self.medians.get(name) for name in (*FRAMEWORKS, *self.medians)}
        row: dict[str, Any] = {"name": self.case.name, "unit": self.case.unit, **medians}
        return row | {"notes": self.notes, "spread": self.spread, "disturbed": self.disturbed}


class WorkerDied(Exception):
    pass


class WorkerProcess:
    """The near end of one worker; restarted when it crashed or hung."""

    def __init__(self, framework: str, settings: Settings, log_dir: Path) -> None:
        self.framework = framework
        self._settings = settings
        self._log_path = log_dir / f"{framework}.log"
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

    def _start(self) -> subprocess.Popen[str]:
        adaptor = "pando" if self.framework == BEFORE else self.framework
        command = [sys.executable, "-m", "benchmarks.worker", adaptor]
        environment = _environment(self._settings.threads)
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
        log_dir = Path(self._logs.name)
        self._workers = [WorkerProcess(name, settings, log_dir) for name in frameworks]

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.stop()
        self._logs.cleanup()

    def measure(self, case: Case) -> Row:
        """Builds the case everywhere, then takes one block of each framework per round.

        Blocks that other processes disturbed are taken again, up to twice as many rounds more.
        """
        row = Row(case)
        samples: dict[str, list[Sample]] = {
            worker.framework: [] for worker in self._workers if self._build(worker, row)
        }
        rounds = (
            self._settings.rounds if case.family != "compile" else self._settings.compile_rounds
        )
        for number in range(3 * rounds):
            for worker in self._workers:
                taken = samples.get(worker.framework)
                enough = taken is None or sum(s.quiet for s in taken) >= rounds
                if taken is None or enough or worker.framework in row.failures:
                    continue
                if number >= rounds and not self._settings.retry_disturbed:
                    continue
                sample = self._block(worker, row)
                if sample is not None:
                    taken.append(sample)
        for worker in self._workers:
            if samples.get(worker.framework) and worker.framework not in row.failures:
                row.add(worker.framework, samples[worker.framework], rounds)
                self._try(worker, row, do="drop")
        return row

    def _block(self, worker: WorkerProcess, row: Row) -> Sample | None:
        watch = NeighbourWatch(worker.pid)
        reply = self._try(worker, row, do="block", seconds=self._settings.block_seconds)
        return None if reply is None else Sample(reply["seconds"], watch.share())

    def _build(self, worker: WorkerProcess, row: Row) -> bool:
        reply = self._try(worker, row, do="build", case=row.case.to_json())
        if reply is not None and reply["note"]:
            row.notes[worker.framework] = reply["note"]
        return reply is not None

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


def run_cases(cases: list[Case], settings: Settings, frameworks: tuple[str, ...]) -> list[Row]:
    """Measures every case, with a progress bar on stderr."""
    rows = []
    with Runner(settings, frameworks) as runner, tqdm(cases, file=sys.stderr, unit="row") as bar:
        for case in bar:
            bar.set_description(case.name)
            row = runner.measure(case)
            for framework, reason in row.failures.items():
                tqdm.write(f"{case.name}: {framework} failed: {reason}", file=sys.stderr)
            rows.append(row)
    return rows
