"""Groups of options: Precision, Training, Jit and Distributed."""

from __future__ import annotations

import os
from typing import Any

import torch

from poptorch._logging import logger
from poptorch._option_values import OptionValues, check_bool, check_positive
from poptorch._options_popart import _PopartOptions
from poptorch.enums import HalfFloatCastingBehavior, MeanReductionStrategy, ReductionType

_PARTIALS_TYPES = {torch.float32: "float", torch.float16: "half"}


class _PrecisionOptions(OptionValues):
    """Options of half precision: `Options.Precision`.

    Args:
        popart: Where the compiler's options of the group are kept.
    """

    def __init__(self, popart: _PopartOptions) -> None:
        super().__init__({})
        self._popart = popart

    @property
    def floating_point_exceptions(self) -> bool:
        """Whether a result that is NaN or infinite is an error."""
        return bool(self._popart.options.get("enableFloatingPointChecks", False))

    @property
    def stochastic_rounding(self) -> bool:
        """Whether stochastic rounding was asked for."""
        return bool(self._popart.options.get("enableStochasticRounding", False))

    @property
    def partials_type(self) -> str:
        """The type in which products are summed: `float` or `half`; both are float32 here."""
        return str(self._popart.options.get("partialsTypeMatMuls", "float"))

    def enableFloatingPointExceptions(self, enabled: bool) -> _PrecisionOptions:
        """Choose whether a run stops when an op gives NaN or an infinity.

        Args:
            enabled: Whether it does.

        Returns:
            The group itself.

        Raises:
            AssertionError: `enabled` is no bool.
        """
        check_bool("enableFloatingPointExceptions", enabled)
        self._popart.set("enableFloatingPointChecks", enabled)
        return self

    def enableStochasticRounding(self, enabled: bool) -> _PrecisionOptions:
        """Ask for stochastic rounding to float16; results are rounded to nearest even.

        Args:
            enabled: Whether it is asked for.

        Returns:
            The group itself.

        Raises:
            AssertionError: `enabled` is no bool.
        """
        check_bool("enableStochasticRounding", enabled)
        self._popart.set("enableStochasticRounding", enabled)
        return self

    def setPartialsType(self, dtype: torch.dtype) -> _PrecisionOptions:
        """Set in which type products of matrices and convolutions are summed; always float32 here.

        It replaces the options of convolutions.

        Args:
            dtype: torch.float or torch.half.

        Returns:
            The group itself.

        Raises:
            ValueError: Another dtype.
        """
        if dtype not in _PARTIALS_TYPES:
            raise ValueError(f"setPartialsType: wanted torch.float or torch.half; given {dtype!r}")
        name = _PARTIALS_TYPES[dtype]
        self._popart.set("partialsTypeMatMuls", name)
        self._popart.set("convolutionOptions", {"partialsType": name})
        return self

    def halfFloatCasting(self, half_float_casting: HalfFloatCastingBehavior) -> _PrecisionOptions:
        """Do nothing: ops of float16 and float32 follow torch's rules.

        Args:
            half_float_casting: Of no effect.

        Returns:
            The group itself.
        """
        self._check_not_frozen()
        logger.warning(
            "halfFloatCasting is deprecated and has no effect: operands of float16 and float32 "
            "give results of the type that torch gives"
        )
        return self

    def runningStatisticsAlwaysFloat(self, value: bool) -> _PrecisionOptions:
        """Do nothing: running statistics have the dtype of their buffers.

        Args:
            value: Of no effect.

        Returns:
            The group itself.

        Raises:
            ValueError: `value` is no bool.
        """
        self._check_not_frozen()
        if not isinstance(value, bool):
            raise ValueError(f"runningStatisticsAlwaysFloat: wanted a bool; given {value!r}")
        logger.warning(
            "runningStatisticsAlwaysFloat is deprecated and has no effect: running statistics have "
            "the dtype of their buffers"
        )
        return self

    def _shown(self) -> dict[str, Any]:
        return {
            "floating_point_exceptions": self.floating_point_exceptions,
            "stochastic_rounding": self.stochastic_rounding,
            "partials_type": self.partials_type,
        }


class _TrainingOptions(OptionValues):
    """Options of training: `Options.Training`.

    Args:
        popart: Where the compiler's options of the group are kept.
    """

    def __init__(self, popart: _PopartOptions) -> None:
        super().__init__({"gradient_accumulation": 1, "convolution_dithering": False})
        self._popart = popart

    @property
    def accumulation_and_replication_reduction_type(self) -> ReductionType:
        """How gradients are reduced over micro-batches and replicas."""
        key = "accumulationAndReplicationReductionType"
        return ReductionType(self._popart.options.get(key, ReductionType.Mean))

    @property
    def meanAccumulationAndReplicationReductionStrategy(self) -> MeanReductionStrategy:
        """When a mean of gradients is divided."""
        key = "meanAccumulationAndReplicationReductionStrategy"
        return MeanReductionStrategy(self._popart.options.get(key, MeanReductionStrategy.Post))

    @property
    def automatic_loss_scaling(self) -> bool:
        """Whether the scale of the loss follows the gradients of float16."""
        return bool(self._popart.options.get("automaticLossScalingSettings.enabled", False))

    def gradientAccumulation(self, gradient_accumulation: int) -> _TrainingOptions:
        """Set how many micro-batches one weight update is made of.

        Args:
            gradient_accumulation: Their number A; pipelines of F stages need at least 2F - 1.

        Returns:
            The group itself.

        Raises:
            AssertionError: It is no int.
            ValueError: It is below 1.
        """
        check_positive("gradientAccumulation", gradient_accumulation)
        self._set("gradient_accumulation", gradient_accumulation)
        return self

    def accumulationAndReplicationReductionType(
        self, reduction_type: ReductionType
    ) -> _TrainingOptions:
        """Set how gradients are reduced over micro-batches and replicas.

        Args:
            reduction_type: Sum or Mean, of the A micro-batches and R replicas.

        Returns:
            The group itself.

        Raises:
            ValueError: Another one.
        """
        allowed = (ReductionType.Sum, ReductionType.Mean)
        if not isinstance(reduction_type, ReductionType) or reduction_type not in allowed:
            raise ValueError(
                "accumulationAndReplicationReductionType: wanted poptorch.ReductionType.Sum or "
                f"poptorch.ReductionType.Mean; given {reduction_type!r}"
            )
        self._popart.set("accumulationAndReplicationReductionType", reduction_type)
        return self

    def setMeanAccumulationAndReplicationReductionStrategy(
        self, mean_reduction_strategy: MeanReductionStrategy
    ) -> _TrainingOptions:
        """Set when a mean of gradients is divided; with float16 sums the results differ.

        Args:
            mean_reduction_strategy: Running: `mean * k / (k + 1) + gradient / (k + 1)`; Post:
                sums, then divides; PostAndLoss: divides in the loss for accumulation and at the
                end for replicas.

        Returns:
            The group itself.

        Raises:
            ValueError: It is no MeanReductionStrategy.
        """
        if not isinstance(mean_reduction_strategy, MeanReductionStrategy):
            raise ValueError(
                "setMeanAccumulationAndReplicationReductionStrategy: wanted a "
                f"poptorch.MeanReductionStrategy; given {mean_reduction_strategy!r}"
            )
        self._popart.set("meanAccumulationAndReplicationReductionStrategy", mean_reduction_strategy)
        return self

    def setAutomaticLossScaling(self, enabled: bool) -> _TrainingOptions:
        """Choose whether the scale of the loss follows the gradients of float16.

        Args:
            enabled: Whether it does.

        Returns:
            The group itself.

        Raises:
            AssertionError: `enabled` is no bool.
        """
        check_bool("setAutomaticLossScaling", enabled)
        self._popart.set("automaticLossScalingSettings.enabled", enabled)
        return self

    def setConvolutionDithering(self, enabled: bool) -> _TrainingOptions:
        """Choose how convolutions are spread over tiles; of no effect here.

        It replaces the options of convolutions.

        Args:
            enabled: Whether they are spread randomly.

        Returns:
            The group itself.

        Raises:
            AssertionError: `enabled` is no bool.
        """
        self._set("convolution_dithering", enabled)
        value = "true" if enabled else "false"
        self._popart.set("convolutionOptions", {"enableConvolutionDithering": value})
        return self

    def _shown(self) -> dict[str, Any]:
        return {
            **self._values,
            "accumulation_and_replication_reduction_type": (
                self.accumulation_and_replication_reduction_type
            ),
            "meanAccumulationAndReplicationReductionStrategy": (
                self.meanAccumulationAndReplicationReductionStrategy
            ),
            "automatic_loss_scaling": self.automatic_loss_scaling,
        }


class _JitOptions(OptionValues):
    """What is left of earlier releases' tracing: `Options.Jit`."""

    def __init__(self) -> None:
        super().__init__({"trace_model": False})

    def traceModel(self, trace_model: bool) -> _JitOptions:
        """Do nothing: modules are always traced in one way.

        Args:
            trace_model: Only False, which is what always happens.

        Returns:
            The group itself.

        Raises:
            ValueError: `trace_model` is true.
        """
        if trace_model:
            raise ValueError(
                "Jit.traceModel(True) is no longer supported: modules are always traced by the "
                "dispatcher. Remove the call"
            )
        logger.warning("Jit.traceModel is deprecated and has no effect: remove the call")
        self._set("trace_model", False)
        return self


# Set by the launcher of MPI.
_MPI_SIZE, _MPI_RANK = "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"


def _number_of_environment(name: str, default: int) -> int:
    text = os.environ.get(name)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name}: wanted a number; given {text!r}") from None


class _DistributedOptions(OptionValues):
    """Which of several processes this is: `Options.Distributed`."""

    def __init__(self) -> None:
        super().__init__({"num_distributed_processes": 1, "distributed_process_id": 0})
        self.setEnvVarNames(_MPI_SIZE, _MPI_RANK)

    @property
    def numProcesses(self) -> int:
        """The number of processes that train together."""
        return int(self._values["num_distributed_processes"])

    @property
    def processId(self) -> int:
        """The number of this process, from 0 on."""
        return int(self._values["distributed_process_id"])

    def disable(self) -> _DistributedOptions:
        """Ignore the environment: there is this process only.

        Returns:
            The group itself.
        """
        return self.configureProcessId(0, 1)

    def setEnvVarNames(self, var_num_processes: str, var_process_id: str) -> _DistributedOptions:
        """Read the number of processes and that of this one from environment variables.

        Args:
            var_num_processes: The name of the variable of the number of processes; 1 where it is
                not set.
            var_process_id: The name of the variable of this process's number; 0 where it is not
                set.

        Returns:
            The group itself.

        Raises:
            ValueError: A variable is no number, or the numbers do not fit.
        """
        return self.configureProcessId(
            _number_of_environment(var_process_id, 0), _number_of_environment(var_num_processes, 1)
        )

    def configureProcessId(self, process_id: int, num_processes: int) -> _DistributedOptions:
        """Say which process this is.

        Args:
            process_id: The number of this process, from 0 on.
            num_processes: The number of processes.

        Returns:
            The group itself.

        Raises:
            AssertionError: They are no ints.
            ValueError: There is no such process.
        """
        check_positive("configureProcessId: num_processes", num_processes)
        both = isinstance(process_id, int) and isinstance(num_processes, int)
        if both and not 0 <= process_id < num_processes:
            raise ValueError(
                f"configureProcessId: wanted a process from 0 to {num_processes - 1}; given "
                f"{process_id}"
            )
        self._set("num_distributed_processes", num_processes)
        self._set("distributed_process_id", process_id)
        return self
