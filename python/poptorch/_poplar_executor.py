"""Modules that run as programs."""

from __future__ import annotations

import itertools
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch

from pando.interrupts import HeldInterrupts
from poptorch import enums
from poptorch._args_parser import BoundArguments, Signature, validate
from poptorch._batching import (
    BatchSizes,
    HostArrays,
    OutputSizes,
    Result,
    check_is_dense,
    input_dtype,
)
from poptorch._compilation import CompileSettings, compile_module
from poptorch._compile_options import cache_folder_of, check_options, one_process_first
from poptorch._executable import Executable
from poptorch._executor_files import ExecutorFiles
from poptorch._executor_tensors import ExecutorTensors
from poptorch._executor_times import ExecutorTimes, RunTimes
from poptorch._executor_weights import ExecutorWeights
from poptorch._impl import createPoptorchError
from poptorch._logging import logger, session_messages
from poptorch._lower.program import Program
from poptorch._module_repr import module_repr
from poptorch._native_errors import NativeErrors
from poptorch._optimizer_device import DeviceOptimizer
from poptorch._profile import write_profile
from poptorch._progress import progress
from poptorch._replica_groups import PerReplicaParameter, ReplicaGroups, check_groups
from poptorch._shutdown import close_at_exit
from poptorch._synthetic import SyntheticData
from poptorch._wrapping import (
    Members,
    check_may_be_wrapped,
    executor_of,
    modes_of,
    shallow_copy,
    unwrap,
    wrap_for_training,
)
from poptorch.options import Options
from poptorch.profiling import Channel

_UNCOMPILED = "Model has not been compiled or has been destroyed."
# Methods whose duration traces show.
_INSTRUMENTED = ("copyWeightsToHost", "copyWeightsToDevice", "setOptimizer", "compile", "destroy")
_RUN_NUMBERS = itertools.count(1)
_OFFLINE = "an offline device (ConnectionType.Never)"


class PoplarExecutor(ExecutorTimes, ExecutorTensors, ExecutorWeights, ExecutorFiles):
    """A module that runs as a compiled program; `trainingModel` and `inferenceModel` make one.

    Unknown attributes are those of `model`.

    Args:
        model: The user's module.
        options: How it is compiled and run; the executor keeps its own copy.
        training: Whether a run updates the weights.
        optimizer: How it updates them.
        user_model: The module that other wrappers of it share; None: `model`.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        options: Options,
        training: bool,
        optimizer: torch.optim.Optimizer | None = None,
        user_model: torch.nn.Module | None = None,
    ) -> None:
        assert training or optimizer is None, "An optimizer needs training: wrap by trainingModel"
        self._user_model = model if user_model is None else user_model
        self._model = shallow_copy(self._user_model)
        self._training = training
        self._options = options
        # Read once: looking up an option is slow beside the rest of a call.
        self._is_offline = options.connection_type == enums.ConnectionType.Never
        self._log_folder = options.log_dir
        self._run_errors = NativeErrors(
            "run", "PoplarExecutor.__call__", log_folder=self._log_folder
        )
        self._per_replica: dict[str, ReplicaGroups] = {}
        self._device_optimizer: DeviceOptimizer | None = None
        if optimizer is not None:
            self._device_optimizer = DeviceOptimizer(optimizer, options)
        self._executable: Executable | None = None
        self._signature = Signature(self._model.forward)
        self._host_arrays = HostArrays()
        self._batches = BatchSizes.of(options)
        self._output_sizes = OutputSizes(
            self._batches, options.output_mode, options.output_return_period
        )
        self._dirty_host_weights = False
        self._is_upload_due = False
        self._members = Members()
        self._last_run = 0
        self._uploaded_version = -1
        self._run_times: RunTimes | None = None
        self._compilation_time: timedelta | None = None
        self._anchored: dict[str, torch.Tensor] = {}
        self._synthetic: SyntheticData | None = None
        close_at_exit(self)
        kind = "trainingModel" if training else "inferenceModel"
        methods = [name for name in _INSTRUMENTED if hasattr(type(self), name)]
        Channel(f"poptorch.{kind}").instrument(self, *methods)
        if training:
            wrap_for_training(self._user_model, self)

    def __repr__(self) -> str:
        return module_repr(self._user_model)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_model" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name}")
        value = getattr(self.model, name)
        if isinstance(value, torch.nn.Parameter):
            return PerReplicaParameter(value, partial(self._group_replicas, name))
        return value

    @property
    def per_replica_params(self) -> dict[str, ReplicaGroups]:
        """The parameters with a value for each group of replicas, by name."""
        return self._per_replica

    def _group_replicas(self, name: str, groups: ReplicaGroups) -> None:
        if self._executable is not None:
            raise createPoptorchError(
                f"The model is compiled: call replicaGrouping of {name} before compile() or the "
                "first run"
            )
        parameter = self._user_model.get_parameter(name)
        check_groups(parameter, groups, self._options.replication_factor)
        self._per_replica[name] = groups

    @property
    def model(self) -> torch.nn.Module:
        """The user's module: wrapped in training, the shallow copy in inference."""
        return self._user_model if self._training else self._model

    @property
    def options(self) -> Options:
        """The executor's own options, frozen."""
        return self._options

    @property
    def _optimizer(self) -> torch.optim.Optimizer | None:
        return None if self._device_optimizer is None else self._device_optimizer.optimizer

    def setOptimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Take the numbers of an optimizer, which the next run works with.

        What changes in an optimizer has no effect before. Another optimizer of the same kind brings
        its own state, if it has one.

        Args:
            optimizer: The optimizer.

        Raises:
            AssertionError: The executor does not train, or the type of the optimizer is unknown.
            ValueError: A number is out of range, or is not what is compiled in; or the kind of the
                optimizer or its groups are not those that the program was compiled for.
        """
        assert self._device_optimizer is not None, (
            "An optimizer can be set in a training executor only: wrap the module by trainingModel"
        )
        self._device_optimizer.set(optimizer)

    # Compilation.

    def isCompiled(self) -> bool:
        """Whether there is a program.

        Returns:
            Whether there is one.
        """
        return self._executable is not None

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Trace the module and compile the program, without running it.

        Args:
            *args: Arguments of `forward`, of a whole combined batch.
            **kwargs: Arguments of `forward` by name.

        Raises:
            Error: The model cannot be compiled.
        """
        if self._executable is not None:
            logger.warning("Call to compile() ignored: the executable is already compiled")
            return
        self._compile(self._signature.bind(args, kwargs))
        if self._options.connection_type == enums.ConnectionType.Always:
            self._attach()

    def _compile(self, bound: BoundArguments, cache: Path | None = None) -> None:
        """Makes the executable; `cache`, if not None, is the folder that it is read from."""
        self._signature.note_dictionaries(bound)
        options = self._options
        if self._training:
            # After destroy() the module is plain; it may have new members, too.
            check_may_be_wrapped(self._user_model, self)
            wrap_for_training(self._user_model, self)
        check_options(options, self._training)
        folder = cache_folder_of(options) if cache is None else cache
        seed = getattr(options, "random_seed", None)
        with (
            NativeErrors("compile", "PoplarExecutor.compile", log_folder=self._log_folder),
            session_messages(),
            one_process_first(self._user_model, folder, options),
            progress(options.show_compilation_progress_bar) as bar,
        ):
            for named in bound.tensors():
                check_is_dense(named.name, named.tensor)
            micro = [self._batches.micro_batch(named.tensor) for named in bound.tensors()]
            settings = CompileSettings(
                options=options,
                training=self._training,
                groups=self._per_replica,
                seed=time.time_ns() & 0x7FFFFFFF if seed is None else seed,
                cache=folder,
                trace_made=bar.step,
                program_made=bar.step,
                restarted=bar.restart,
            )
            executable, update = compile_module(
                self._model, bound.with_tensors(micro), self._device_optimizer, settings
            )
            bar.step()
        executable.modes = modes_of(self._model)
        # What other calls are compared with is the combined batch.
        executable.arguments = bound.without_data()
        with HeldInterrupts():
            self._compilation_time = bar.duration
            self._run_times = None
            self._anchored = {}
            if options.synthetic_data:
                self._synthetic = SyntheticData(
                    executable.session, executable.seed, options.synthetic_data_mode
                )
            self._members = Members(
                self._model, executable.program.names, self._per_replica, fixed=self._training
            )
            if self._device_optimizer is not None and update is not None:
                schedule = executable.schedule
                self._device_optimizer.compiled(
                    executable.variables,
                    update.values,
                    update.state,
                    schedule.groups,
                    schedule.replicas,
                )
            # Until it is on a device for the first time.
            self._is_upload_due = True
            self._executable = executable

    def _compiled(self) -> Executable:
        if self._executable is None:
            raise createPoptorchError(_UNCOMPILED)
        return self._executable

    def destroy(self) -> None:
        """Give up the program and the device, and take the wrapper off the user's module.

        Without a program this does nothing; the module's own `destroy()` takes the wrapper off.

        Raises:
            OSError: Weights or state cannot be read, as on a full disk; nothing is given up then.
        """
        executable = self._executable
        if executable is None:
            return
        # What takes long or may fail comes first, and can be tried again.
        if self._training and self._dirty_host_weights:
            self._read_weights(self._written_tensors())
        if self._device_optimizer is not None:
            self._device_optimizer.read_state()
        if executable.attached:
            write_profile(executable.session, self._options, self._training)
        with HeldInterrupts():
            if self._training:
                unwrap(self._user_model, self)
            if self._device_optimizer is not None:
                self._device_optimizer.destroyed()
            self._executable = None
            if executable.attached:
                executable.session.__exit__(None, None, None)

    def __del__(self) -> None:
        if "_executable" not in self.__dict__:
            return
        # Python passes over what is raised here: nothing could be tried again.
        with HeldInterrupts():
            try:
                self.destroy()
            finally:
                # Others may have wrapped the module since.
                if self._training and executor_of(self._user_model) in (None, self):
                    unwrap(self._user_model, self)

    def _close(self) -> None:
        """Gives the device up at the end of the process; the module stays as it is."""
        if self._executable is not None and self._executable.attached:
            self._detach()
        if self._device_optimizer is not None:
            self._device_optimizer.closed()

    # Device.

    def isAttachedToDevice(self) -> bool:
        """Whether the executor holds a device.

        Returns:
            Whether it does; False before compilation, then True for a model without any op.
        """
        executable = self._executable
        return executable is not None and (executable.attached or not executable.needs_device)

    def attachToDevice(self) -> None:
        """Take a device and upload weights and states.

        Raises:
            Error: The model is not compiled or attached already.
            AssertionError: The options say that there is no device.
        """
        executable = self._compiled()
        assert not self._is_offline, f"Trying to attach to {_OFFLINE}"
        if executable.attached:
            raise createPoptorchError("Device is already attached")
        self._attach()

    def _attach(self) -> None:
        executable = self._compiled()
        session = executable.session
        with HeldInterrupts() as held:
            try:
                with held.allowed():
                    with (
                        NativeErrors(
                            "attach",
                            "PoplarExecutor.attachToDevice",
                            log_folder=self._log_folder,
                        ),
                        session_messages(),
                    ):
                        session.__enter__()
                    executable.variables.attached()
                    self._upload()
                if self._device_optimizer is not None:
                    self._device_optimizer.attached()
            except BaseException:
                # Without a part of the values no run makes sense; those of the host are kept.
                self._is_upload_due = True
                if executable.attached:
                    session.__exit__(RuntimeError, None, None)
                raise
            executable.variables.forget_kept()

    def detachFromDevice(self) -> None:
        """Bring weights and states to the host and give the device up.

        Raises:
            Error: The model is not compiled or not attached.
        """
        if not self._compiled().attached:
            raise createPoptorchError("Device is not attached")
        self._detach(keeps=True)

    def _detach(self, keeps: bool = False) -> None:
        """Gives the device up; `keeps`: it will be taken again with the state of now."""
        if self._training:
            self.copyWeightsToHostIfNeeded()
        if self._device_optimizer is not None:
            self._device_optimizer.read_back()
        executable = self._compiled()
        session = executable.session
        if keeps:
            executable.variables.keep()
        write_profile(session, self._options, self._training)
        with HeldInterrupts():
            session.__exit__(None, None, None)

    # Running.

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program on a combined batch; compile it before, if there is none.

        Args:
            *args: Arguments of `forward`, of a whole combined batch.
            **kwargs: Arguments of `forward` by name.

        Returns:
            What `forward` returned in the trace, with the results in place of its tensors.

        Raises:
            AssertionError: The options say that there is no device, or the batch does not divide.
            Error: The arguments are not those that the model was compiled for, or the run failed.
        """
        assert not self._is_offline, (
            f"Trying to run a model on {_OFFLINE}: use model.compile(inputs) instead of "
            "model(inputs)"
        )
        bound = self._signature.bind(args, kwargs)
        if self._executable is None:
            self._compile(bound)
        executable = self._compiled()
        self._members.check()
        if not executable.attached:
            self._attach()
        self._finish_upload()
        if not self._training:
            self._sync_from_training()
        tensors = validate(executable.arguments, bound)
        return self._run(executable, tensors)

    def _written_inputs(
        self,
        program: Program,
        tensors: list[torch.Tensor],
    ) -> list[tuple[torch.Tensor, Result]]:
        """Memory for inputs that the model writes, for all micro-batches of all replicas."""
        if not program.written_inputs:
            return []
        sizes = OutputSizes(self._batches, enums.OutputMode.All)
        return [
            (
                tensors[number],
                sizes.make(stream.shape, input_dtype(tensors[number].dtype), sizes.each),
            )
            for number, stream in program.written_inputs.items()
        ]

    def _run(self, executable: Executable, tensors: list[torch.Tensor]) -> Any:
        program = executable.program
        begin = time.perf_counter()
        make, steps = self._output_sizes.make, self._batches.steps
        results = [make(shape, dtype, steps) for shape, dtype in executable.shapes]
        anchored = self._anchor_memory(program)
        if self._synthetic is not None:
            arrays, written = [], []
            for result in (*results, *anchored.values()):
                result.array[...] = 0
        else:
            arrays = self._host_inputs(executable, tensors)
            written = self._written_inputs(program, tensors)
        if self._device_optimizer is not None:
            self._device_optimizer.before_run()
        ready = time.perf_counter()
        # Before the run: an interrupt may come between its end and the next line.
        self._dirty_host_weights = self._training
        self._last_run = next(_RUN_NUMBERS)
        with self._run_errors:
            if self._synthetic is not None:
                self._synthetic.run(executable.session)
            else:
                targets = [result.array for result in (*results, *anchored.values())]
                executable.run(arrays, targets + [result.array for _, result in written])
        done = time.perf_counter()
        for tensor, result in written:
            with torch.no_grad():
                tensor.copy_(self._batches.of_groups(result.tensor()).reshape(tensor.shape))
        given = [result.tensor() for result in results]
        if executable.anchors or anchored:
            count = len(given) - len(executable.anchors)
            self._keep_anchors(executable, given[count:], anchored)
            given = given[:count]
        rebuilt = executable.structure.rebuild(given)
        self._run_times = RunTimes(begin, ready, done, time.perf_counter())
        return rebuilt

    def _host_inputs(self, executable: Executable, tensors: list[torch.Tensor]) -> list[Any]:
        """The arrays of the inputs' streams."""
        split, array = self._batches.split, self._host_arrays.array
        names = executable.arguments.tensor_names()
        return [split(array(name, one)) for name, one in zip(names, tensors, strict=True)]
