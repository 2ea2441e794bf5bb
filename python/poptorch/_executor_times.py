"""What an executor tells of times: of its compilation, its runs, their inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from poptorch import enums
from poptorch._devices import uses_model
from poptorch._impl import createPoptorchError
from poptorch.options import Options

if TYPE_CHECKING:
    from poptorch._executable import Executable


@dataclass
class RunTimes:
    """When what happened in a run, in seconds of one clock.

    A run takes all its inputs at once and gives all its outputs at once.

    Attributes:
        input: When it began.
        input_complete: When the inputs were there.
        output: When the results were.
        output_complete: When the caller had them.
    """

    input: float
    input_complete: float
    output: float
    output_complete: float


_Latency = tuple[float, float, float]


def _same(seconds: float) -> _Latency:
    return seconds, seconds, seconds


class ExecutorTimes:
    """The methods of executors that tell of times."""

    _options: Options
    _executable: Executable | None
    _run_times: RunTimes | None
    _compilation_time: timedelta | None

    def compilationTime(self) -> timedelta:
        """Tell how long the model took to compile.

        Returns:
            The time, from the trace to the executable.

        Raises:
            Error: The model is not compiled, or the progress bar is off.
        """
        if self._executable is None:
            raise createPoptorchError("Please compile the model before obtaining compilation time.")
        if self._compilation_time is None:
            raise createPoptorchError(
                "Please set showCompilationProgressBar option to obtain compilation time."
            )
        return self._compilation_time

    def cycleCount(self) -> int:
        """Tell how long the last run took on the device.

        Returns:
            Nanoseconds, of which a cycle is one here.

        Raises:
            Error: The option `logCycleCount` is off, there was no run, or the device is a model.
        """
        if not self._options.log_cycle_count:
            raise createPoptorchError(
                "Cycle count logging is disabled. Please set option logCycleCount to True to "
                "enable."
            )
        if uses_model(self._options):
            raise createPoptorchError(
                "Cycle count logging is only supported on actual IPU hardware."
            )
        times = self._run_times
        if times is None:
            raise createPoptorchError(
                "Please run the model at least once before obtaining cycle count."
            )
        return max(1, round((times.output - times.input_complete) * 1e9))

    def _transfers(self) -> tuple[int, int]:
        """How many transfers a run has for each input and for each output."""
        options = self._options
        if options.synthetic_data:
            return 0, 0
        replicas = int(options.replication_factor)
        steps = int(options.device_iterations * options.Training.gradient_accumulation)
        each = {
            enums.OutputMode.All: steps,
            enums.OutputMode.EveryN: steps // options.output_return_period,
        }
        return steps * replicas, each.get(options.output_mode, 1) * replicas

    def getPerfCounters(self) -> dict[str, list[list[float]]]:
        """Tell when the inputs and outputs of the last run were transferred.

        Returns:
            For `input`, `input_complete`, `output` and `output_complete` a list for each tensor of
            the seconds of its transfers; they are empty with synthetic data, and there is one
            empty list for all tensors before the model is compiled.
        """
        executable = self._executable
        names = ("input", "input_complete", "output", "output_complete")
        if executable is None:
            return {name: [[]] for name in names}
        tensors = (len(executable.program.inputs), len(executable.structure.tensors()))
        times = self._run_times
        transfers = self._transfers() if times is not None else (0, 0)
        counters = {}
        for index, name in enumerate(names):
            seconds = 0.0 if times is None else float(getattr(times, name))
            kind = index // 2
            counters[name] = [[seconds] * transfers[kind] for _ in range(tensors[kind])]
        return counters

    def _between(self, first: str, last: str) -> _Latency:
        times = self._run_times
        if times is None or self._options.synthetic_data:
            return _same(0.0)
        return _same(float(getattr(times, last) - getattr(times, first)))

    def getLatency(self) -> tuple[float, float, float]:
        """Tell how long the last run took, from the first input to the last output.

        Returns:
            The minimum, maximum and mean over its steps, in seconds; zeros without a run.
        """
        return self._between("input", "output_complete")

    def getComputeLatency(self) -> tuple[float, float, float]:
        """Tell how long the last run computed: from the last input to the last output.

        Returns:
            The minimum, maximum and mean over its steps, in seconds; zeros without a run.
        """
        return self._between("input_complete", "output")

    def getHostIpuLatency(self) -> tuple[float, float, float]:
        """Tell how long the inputs of the last run took to the device.

        Returns:
            The minimum, maximum and mean over its steps, in seconds; zeros without a run.
        """
        return self._between("input", "input_complete")

    def getIpuHostLatency(self) -> tuple[float, float, float]:
        """Tell how long the outputs of the last run took to the host.

        Returns:
            The minimum, maximum and mean over its steps, in seconds; zeros without a run.
        """
        return self._between("output", "output_complete")
