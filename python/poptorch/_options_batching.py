"""Options of what a call takes and gives: iterations, replicas, outputs, random numbers."""

from __future__ import annotations

import enum
from typing import Any, ClassVar, TypeVar

import torch

from poptorch._logging import logger
from poptorch._option_values import OptionValues, check_positive
from poptorch._options_popart import _PopartOptions
from poptorch._strategies import ExecutionStrategy
from poptorch.enums import CommGroupType, OutputMode

Batching = TypeVar("Batching", bound="BatchingOptions")


class SyntheticDataMode(enum.IntEnum):
    """How inputs are made on the device, as the original's compiler counts it."""

    OFF = 0
    ZEROS = 1
    NORMAL = 2
    UNIFORM = 3  # in [0, 1)


def _check_output_mode(where: str, mode: object, period: object) -> None:
    assert isinstance(mode, OutputMode), (
        f"{where}: wanted a poptorch.OutputMode; given {mode!r} ({type(mode)})"
    )
    if mode == OutputMode.EveryN:
        assert isinstance(period, int) and not isinstance(period, bool) and period > 0, (
            f"{where}: OutputMode.EveryN needs a positive output_return_period; given {period!r}"
        )


def check_input_groups(input_group_size: int, replication_factor: int) -> None:
    """Check that groups of replicas with the same inputs are equally large.

    Args:
        input_group_size: The number of replicas in a group.
        replication_factor: The number of all replicas.

    Raises:
        ValueError: There is a group that is larger or smaller.
    """
    sizes = f"(given {input_group_size} of {replication_factor} replicas)"
    if input_group_size > replication_factor:
        raise ValueError(f"input_group_size cannot be larger than replication_factor {sizes}")
    if replication_factor % input_group_size:
        raise ValueError(f"input_group_size must be a factor of replication_factor {sizes}")


class BatchingOptions(OptionValues):
    """Options of what a call takes and gives."""

    DEFAULTS: ClassVar[dict[str, Any]] = {
        "replication_factor": 1,
        "device_iterations": 1,
        "input_group_size": 1,
        "input_cgt": CommGroupType.Consecutive,
        "output_mode": OutputMode.Default,
        "output_return_period": 1,
        "broadcast_buffers": True,
    }
    # Absent until they are set.
    KINDS: ClassVar[dict[str, type]] = {"random_seed": int}

    _Popart: _PopartOptions
    _execution_strategy: ExecutionStrategy

    def deviceIterations(self: Batching, device_iterations: int) -> Batching:
        """Set how many iterations of the device one call is.

        Args:
            device_iterations: Their number D; inference in a pipeline of F stages needs F.

        Returns:
            The options themselves.

        Raises:
            AssertionError: It is no int.
            ValueError: It is below 1.
        """
        check_positive("deviceIterations", device_iterations)
        self._set("device_iterations", device_iterations)
        return self

    def replicationFactor(self: Batching, replication_factor: int) -> Batching:
        """Set how many replicas of the model work on a batch in parallel.

        Args:
            replication_factor: Their number R, in this process. Models and data loaders refuse one
                that a size set by `inputReplicaGrouping` does not divide.

        Returns:
            The options themselves.

        Raises:
            AssertionError: It is no int.
            ValueError: It is below 1.
        """
        check_positive("replicationFactor", replication_factor)
        self._set("replication_factor", replication_factor)
        return self

    def inputReplicaGrouping(
        self: Batching, input_group_size: int, input_group_type: CommGroupType
    ) -> Batching:
        """Give groups of replicas the same inputs; to be called after `replicationFactor`.

        Args:
            input_group_size: The number of replicas in a group.
            input_group_type: Consecutive, Orthogonal, or NoGrouping, which is groups of 1.

        Returns:
            The options themselves.

        Raises:
            AssertionError: The arguments are of other types.
            ValueError: The type is All, or R is not a multiple of the size.
        """
        assert isinstance(input_group_type, CommGroupType), (
            f"inputReplicaGrouping: wanted a poptorch.CommGroupType; given {input_group_type!r}"
        )
        check_positive("inputReplicaGrouping: input_group_size", input_group_size)
        if input_group_type == CommGroupType.All:
            raise ValueError("input_group_type cannot be All")
        if input_group_type == CommGroupType.NoGrouping:
            input_group_size, input_group_type = 1, CommGroupType.Consecutive
        if isinstance(input_group_size, int):
            check_input_groups(input_group_size, self._values["replication_factor"])
        self._set("input_group_size", input_group_size)
        self._set("input_cgt", input_group_type)
        return self

    def setExecutionStrategy(self: Batching, strategy: ExecutionStrategy) -> Batching:
        """Choose how a model on several devices is executed.

        Args:
            strategy: A PipelinedExecution, ShardedExecution, SerialPhasedExecution or
                ParallelPhasedExecution.

        Returns:
            The options themselves.

        Raises:
            AssertionError: It is none of them.
        """
        self._check_not_frozen()
        assert isinstance(strategy, ExecutionStrategy), (
            "setExecutionStrategy: wanted a poptorch.PipelinedExecution, ShardedExecution, "
            f"SerialPhasedExecution or ParallelPhasedExecution; given {strategy!r}"
        )
        self._execution_strategy = strategy
        logger.debug("poptorch.Options set execution_strategy to value %s", strategy)
        return self

    def outputMode(
        self: Batching, output_mode: OutputMode, output_return_period: int | None = None
    ) -> Batching:
        """Choose which results a call returns.

        Args:
            output_mode: Final, EveryN, All, Sum or Default.
            output_return_period: For EveryN the number N of micro-batches of which the last one's
                results are returned; ignored for other modes.

        Returns:
            The options themselves.

        Raises:
            AssertionError: It is no OutputMode, or EveryN is without a positive period.
        """
        _check_output_mode("outputMode", output_mode, output_return_period)
        period = output_return_period if output_mode == OutputMode.EveryN else 1
        self._set("output_mode", output_mode)
        self._set("output_return_period", period)
        return self

    def defaultOutputMode(self) -> bool:
        """Tell whether no output mode was chosen.

        Returns:
            True while the mode is Default.
        """
        return bool(self._values["output_mode"] == OutputMode.Default)

    def anchorTensor(
        self: Batching,
        short_name: str,
        long_name: str,
        output_mode: OutputMode | None = None,
        output_return_period: int | None = 1,
    ) -> Batching:
        """Also return a tensor inside the model: `PoplarExecutor.getAnchoredTensor`.

        It has an effect before the model is compiled, also on frozen options.

        Args:
            short_name: The name by which it is asked for.
            long_name: Its name in the model: one of `PoplarExecutor.getTensorNames`.
            output_mode: Which of its values are returned; None: as of outputs.
            output_return_period: For EveryN, as in `outputMode`.

        Returns:
            The options themselves.

        Raises:
            AssertionError: An argument is of another type.
        """
        for name in (short_name, long_name):
            assert isinstance(name, str), f"anchorTensor: wanted names as str; given {name!r}"
        if output_mode is not None:
            _check_output_mode("anchorTensor", output_mode, output_return_period)
        value = [long_name, output_mode, output_return_period]
        self._set_item("anchored_tensors", short_name, value)
        return self

    def randomSeed(self: Batching, random_seed: int) -> Batching:
        """Seed the random numbers of the device, torch's on the host, and shuffled data loaders.

        Args:
            random_seed: The seed; without one every run of a program draws other numbers.

        Returns:
            The options themselves.

        Raises:
            AssertionError: It is no int.
        """
        self._set("random_seed", random_seed)
        torch.manual_seed(random_seed)
        return self

    def enableSyntheticData(self: Batching, enabled: bool | int) -> Batching:
        """Choose whether inputs are made on the device: random normal numbers.

        Nothing is then transferred, and outputs have the right shapes only.

        Args:
            enabled: True or another number than 0: they are.

        Returns:
            The options themselves.

        Raises:
            AssertionError: It is neither a bool nor an int.
        """
        assert isinstance(enabled, int), (
            f"enableSyntheticData: wanted a bool or an int; given {enabled!r}"
        )
        mode = SyntheticDataMode.NORMAL if enabled else SyntheticDataMode.OFF
        self._Popart.set("syntheticDataMode", int(mode))
        return self

    @property
    def synthetic_data(self) -> bool:
        """Whether inputs are made on the device."""
        return self.synthetic_data_mode != SyntheticDataMode.OFF

    @property
    def synthetic_data_mode(self) -> SyntheticDataMode:
        """How inputs are made on the device."""
        return SyntheticDataMode(self._Popart.options.get("syntheticDataMode", 0))

    def broadcastBuffers(self: Batching, broadcast_buffers: bool = True) -> Batching:
        """Choose whether replicas are to have the same buffers.

        Args:
            broadcast_buffers: Must be False for several replicas of a model that writes its
                buffers: each then has its own, and that of replica 0 is read back.

        Returns:
            The options themselves.

        Raises:
            AssertionError: It is no bool.
        """
        self._set("broadcast_buffers", broadcast_buffers)
        return self

    def updatableNamedBuffers(self: Batching, buffers: list[str]) -> Batching:
        """Name the buffers that `PoplarExecutor.copyNamedBuffersToDevice` copies.

        Args:
            buffers: The names.

        Returns:
            The options themselves.

        Raises:
            AssertionError: They are no list of str.
        """
        assert isinstance(buffers, (list, tuple)) and all(
            isinstance(one, str) for one in buffers
        ), f"updatableNamedBuffers: wanted a list of str; given {buffers!r}"
        self._Popart.set("updatableNamedBuffers", list(buffers))
        return self

    @property
    def updatable_named_buffers(self) -> list[str]:
        """The names of the buffers that can be copied to the device by themselves."""
        return list(self._Popart.options.get("updatableNamedBuffers", []))
