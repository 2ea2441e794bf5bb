"""Sessions: compiled programs with their state."""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pando import _core
from pando.host_arrays import empty_array_maker, with_dlpack
from pando.host_functions import HostFunction
from pando.interrupts import HeldInterrupts
from pando.settings import session_settings
from pando.stream_callbacks import StreamCallback, StreamSink, StreamSource, run_with_callbacks
from popart.devices import DeviceInfo
from popart.logging_ import getLogger
from popxl.dtypes import dtype
from popxl.host_values import check_output
from popxl.internal_session import InternalSession
from popxl.ir import Ir
from popxl.session_compile import (
    compile_ir,
    ipus_per_replica,
    note_repeated,
    resolve_device,
)
from popxl.session_variables import SessionVariables
from popxl.stream_arrays import (
    check_shape,
    extra_dims,
    full_shape,
    in_stream_dtype,
    input_array,
    is_ready,
)
from popxl.streams import DeviceToHostStream, HostToDeviceStream, Stream

_Array = np.ndarray[Any, Any]
d2hStreamBufferMaps = Mapping[DeviceToHostStream, _Array]  # noqa: N816
h2dStreamBufferMaps = Mapping[HostToDeviceStream, _Array | StreamSource]  # noqa: N816
StreamBufferMaps = d2hStreamBufferMaps | h2dStreamBufferMaps


def _numpy_dtype(core_dtype: _core.DType) -> np.dtype[Any]:
    return dtype._from_pb(core_dtype).as_numpy()


class Session(SessionVariables):
    """A compiled Ir. Inside `with session:` it is attached to a device and can run.

    The first entry uploads the variables, the last exit brings them back. The Ir must not change
    after.

    Args:
        ir: The program.
        device_desc: `cpu`, `ipu_model` or `ipu_hw`, which all are this machine, or a
            `popart.DeviceInfo`.
        weights_to_host_on_exit: Whether variables are brought back; never read-only memory maps.

    Raises:
        TypeError: `ir` is not an Ir.
        ValueError: The device is unknown.
        RuntimeError: The Ir has no ops.
        NotImplementedError: A session option, an op or several instances are not supported.
        popart_exception: The program cannot be compiled or needs more memory than the limit.
    """

    def __init__(
        self,
        ir: Ir,
        device_desc: str | DeviceInfo = "cpu",
        weights_to_host_on_exit: bool = True,
    ) -> None:
        if not isinstance(ir, Ir):
            raise TypeError(f"Session: wanted a popxl.Ir; given {type(ir)}")
        self.ir_ = ir
        self._lock = threading.RLock()
        self._was_attached_stack: list[Any] = []
        self._unload_work: Callable[[], None] | None = None
        # A device that was attached before, by the user or another session, is not ours to detach.
        self._attached_device = False
        self._in_sync = True
        # One is being saved or loaded; what that calls on the same thread may not change the state.
        self._in_checkpoint = False
        self._keeps_host_values = session_settings().keep_host_values
        self._given_up = set()
        self.weights_to_host_on_exit = weights_to_host_on_exit
        if ir._has_read_only_memmap and weights_to_host_on_exit:
            getLogger("session").info(
                "weights_to_host_on_exit is off: a variable is a read-only memory-mapped array"
            )
            self.weights_to_host_on_exit = False
        if not ir._pb.has_ops:
            raise RuntimeError(
                f"The Ir {ir.id} has no graphs with ops: create ops before making a session"
            )
        self._device = resolve_device(device_desc)
        ir._pb.replication_factor = ir.replication_factor
        self._core = compile_ir(ir, self._device)
        ir._has_session = True
        ir._session_reference = weakref.ref(self)
        self._pb_session = InternalSession(self, self._core)
        ir.dot_checkpoint("Final", None)
        self._prepare_streams()
        self._host_functions = self._start_host_functions()
        if isinstance(device_desc, DeviceInfo) and device_desc.isAttached:
            self._load()

    def _prepare_streams(self) -> None:
        """What `run` needs per stream, in the order of the core's lists."""
        inputs, outputs = self.ir_._used_streams()
        self._inputs = {stream.tensor_id: stream for stream in inputs}
        self._outputs = {stream.tensor_id: stream for stream in outputs}
        self._input_set = set(self._inputs.values())
        self._output_set = set(self._outputs.values())

        def plan(streams: Iterable[Any], known: Mapping[str, Stream]) -> list[Any]:
            return [
                (
                    known[stream.id],
                    self._full_input_shape(known[stream.id].shape),
                    known[stream.id].dtype.as_numpy(),
                )
                for stream in streams
            ]

        self._input_plan = plan(self._core.input_streams, self._inputs)
        self._output_plan = plan(self._core.output_streams, self._outputs)
        self._output_makers = [
            (stream, empty_array_maker(kind), shape, kind)
            for stream, shape, kind in self._output_plan
        ]

    def _start_host_functions(self) -> list[HostFunction]:
        """Those that the program calls, each on its thread while the session exists."""
        functions = []
        for name in self._core.host_functions:
            if (function := self.ir_._host_functions.get(name)) is None:
                continue  # a run says so
            functions.append(HostFunction(name, function, _numpy_dtype))
            weakref.finalize(self, functions[-1].close)
            self._core.set_host_function(functions[-1].queue)
        return functions

    @property
    def ir(self) -> Ir:
        """The Ir that was compiled."""
        return self.ir_

    @property
    def is_attached(self) -> bool:
        """Whether the session holds a device."""
        return self._device.isAttached and self._pb_session._loaded

    def __repr__(self) -> str:
        if "_output_plan" not in self.__dict__:
            return f"{type(self).__name__}[not compiled]"
        memory = self._core.memory
        return (
            f"{type(self).__name__}[ir={self.ir_.id} replicas={self.ir_.replication_factor} "
            f"device={self._device.type.name} attached={self.is_attached} "
            f"inputs={list(self._inputs)} outputs={list(self._outputs)} "
            f"variables={len(self.ir_._variables)} "
            f"device_bytes={memory.persistent_bytes + memory.peak_frame_bytes}]"
        )

    # Life cycle.

    def _load(self) -> None:
        try:
            self._core.attach()
            self._pb_session._loaded = True
            self._upload()
        except BaseException:
            self._unload()
            raise

    def _before_unload(self, work: Callable[[], None]) -> None:
        """Do something once before the program is unloaded, in place of what was given before."""
        self._unload_work = work

    def _do_unload_work(self) -> None:
        work, self._unload_work = self._unload_work, None
        if work is not None:
            work()

    def _unload(self) -> None:
        try:
            self._do_unload_work()
        finally:
            self._detach_core()
        self._pb_session._loaded = False

    def _detach_core(self) -> None:
        try:
            self._take_back()
        finally:
            self._core.detach()

    def __enter__(self) -> Session:
        depth = None
        try:
            with self._lock, HeldInterrupts() as held:
                depth = len(self._was_attached_stack)
                self._enter(held)
        except BaseException as error:
            # Ctrl-C that came too late for `_enter`: nobody will call `__exit__`.
            if depth is not None and len(self._was_attached_stack) > depth:
                self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def _enter(self, held: HeldInterrupts) -> None:
        was_attached = self.is_attached
        if not was_attached:
            if not self._device.isAttached:
                self._device.attach()
                self._attached_device = True
            try:
                with held.allowed():
                    self._load()
            except BaseException:
                self._release_device()
                raise
        self._was_attached_stack.append(was_attached)

    def _release_device(self) -> None:
        if self._attached_device:
            self._device.detach()
            self._attached_device = False

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        with self._lock, HeldInterrupts() as held:
            if not self._was_attached_stack.pop():
                self._leave(exc_type, held)

    def _leave(self, exc_type: Any, held: HeldInterrupts) -> None:
        # What was trained up to an interrupt of the user's is not lost.
        ended_well = exc_type is None or issubclass(exc_type, KeyboardInterrupt)
        try:
            try:
                with held.allowed():
                    self._do_unload_work()
            finally:
                # The program may have been unloaded by hand: then the device has no weights.
                if ended_well and self.weights_to_host_on_exit and self.is_attached:
                    # Each variable leaves the device as it comes: they take memory once.
                    self._bring_back(last=True)
        finally:
            self._unload()
            self._release_device()
            self._in_sync = True

    def _require_attached(self, what: str) -> None:
        if not self.is_attached:
            raise ValueError(
                f"{what}: the session is not attached to a device; use it inside `with session:`"
            )

    def _set_device(self, device: DeviceInfo) -> None:
        self._device = device

    # Running.

    def expected_inputs(self) -> set[HostToDeviceStream]:
        """Find the streams that `run` wants data for.

        Returns:
            A new set: the streams that at least one op loads.
        """
        return set(self._input_set)

    def _expected_outputs(self) -> set[DeviceToHostStream]:
        return set(self._output_set)

    @property
    def _extra_input_dims(self) -> tuple[int, ...]:
        return extra_dims(self.ir_)

    def _full_input_shape(self, shape: Iterable[int]) -> tuple[int, ...]:
        """The shape of the array for a stream of `shape`."""
        return full_shape(self.ir_, shape)

    def create_host_outputs(self) -> dict[DeviceToHostStream, _Array]:
        """Make arrays for `run_with_outputs` to fill.

        Returns:
            An uninitialised array of the full shape for every stream that ops store to.
        """
        return {
            stream: with_dlpack(
                np.empty(self._full_input_shape(stream.shape), stream.dtype.as_numpy())
            )
            for stream in self._outputs.values()
        }

    def run(
        self,
        inputs: h2dStreamBufferMaps | None = None,
        downcast_inputs: bool = True,
    ) -> dict[DeviceToHostStream, _Array]:
        """Execute the main graph once, on all replicas.

        Args:
            inputs: An array for each stream of `expected_inputs`, of shape (transfers, replicas,
                *stream.shape); `ir.num_host_transfers` and the number of replicas are left out
                where they are 1. Or a `StreamSource` (pando.stream_callbacks), whose function
                gives the transfers as they are needed.
            downcast_inputs: Whether 64-bit data become 32-bit data.

        Returns:
            A new array, of such a shape, for each stream that ops store to.

        Raises:
            TypeError: `inputs` is not a mapping.
            ValueError: The session is not attached, or the streams or the shapes are others.
            popart_runtime_error: Data are of another dtype than their stream.
            poplar_application_runtime_error: A check of the program failed.
        """
        outputs = {stream: make(shape, kind) for stream, make, shape, kind in self._output_makers}
        self._execute(inputs, list(outputs.values()), downcast_inputs)
        if len(outputs) != len(self._output_set):
            outputs = {**self.create_host_outputs(), **outputs}
        return outputs

    def run_with_outputs(
        self,
        inputs: h2dStreamBufferMaps | None = None,
        outputs: Mapping[DeviceToHostStream, _Array | StreamSink] | None = None,
        downcast_inputs: bool = True,
    ) -> None:
        """Execute the main graph once, as `run` does, and fill given arrays.

        Args:
            inputs: An array for each stream of `expected_inputs`, as `run` takes them.
            outputs: A writable array for each stream that ops store to, whose elements of the
                stream's shape are C-contiguous and share no memory, or a
                `StreamSink` (pando.stream_callbacks), whose function gets its transfers.
            downcast_inputs: Whether 64-bit data become 32-bit data.

        Raises:
            ValueError: What `run` refuses, or the output streams or their shapes are others.
            TypeError: An output is no NumPy array.
            popart_exception: An output array does not suit its stream.
        """
        given: Mapping[DeviceToHostStream, Any] = {} if outputs is None else outputs
        sinks = {s: value for s, value in given.items() if isinstance(value, StreamSink)}
        self._validate_run_outputs(given, sinks)
        targets: list[Any] = [
            self._queue_of(sinks[stream], stream, kind) if stream in sinks else given[stream]
            for stream, _, kind in self._output_plan
        ]
        self._execute(inputs, targets, downcast_inputs, sinks.values())

    def _execute(
        self,
        inputs: h2dStreamBufferMaps | None,
        targets: list[Any],
        downcast: bool,
        sinks: Collection[StreamSink] = (),
    ) -> None:
        with self._lock:
            if self._in_checkpoint:
                self._refuse_in_checkpoint("run")
            if not self._pb_session._loaded or not self._device.isAttached:
                self._require_attached("run")
            given = {} if inputs is None else inputs
            if type(given) is not dict and not isinstance(given, Mapping):
                raise TypeError(f"run: wanted a mapping of streams to arrays; given {type(given)}")
            arrays: list[_Array | _core.TransferQueue] = []
            callbacks: list[StreamCallback | HostFunction] = (
                [*sinks, *self._host_functions] if sinks or self._host_functions else []
            )
            if len(given) != len(self._input_set):
                self._raise_wrong_streams("input", given, self._input_set)
            for stream, shape, kind in self._input_plan:
                value = given.get(stream)
                if is_ready(value, stream, shape, kind):
                    arrays.append(value)
                else:
                    if isinstance(value, StreamSource):
                        callbacks.append(value)
                    arrays.append(self._prepare_input(stream, given, kind, downcast))
            self._run_core(arrays, targets, callbacks)

    def _run_core(
        self,
        arrays: list[Any],
        targets: list[Any],
        callbacks: Sequence[StreamCallback | HostFunction],
    ) -> None:
        self._in_sync = False
        run = self._core.run
        if callbacks:
            if not isinstance(self._lock, _core.CallLock):
                self._lock = _core.CallLock(self._lock)
            run = run_with_callbacks(run, callbacks, self._lock)
        for repeated in run(arrays, targets):
            note_repeated(self.ir_, repeated)

    def _array_runner(
        self, inputs: Sequence[HostToDeviceStream], outputs: Sequence[DeviceToHostStream]
    ) -> Callable[[Sequence[_Array], Sequence[_Array]], None]:
        """Prepare runs that are given exactly the arrays that streams want.

        Args:
            inputs: The streams of the arrays to the device, in order.
            outputs: Those of the arrays that runs fill, in order.

        Returns:
            A function that executes the main graph once. It trusts that arrays have the full shapes
            and the dtypes of their streams.

        Raises:
            ValueError: The program has other streams.
        """
        if set(inputs) != self._input_set:
            self._raise_wrong_streams("input", inputs, self._input_set)
        if set(outputs) != self._output_set:
            self._raise_wrong_streams("output", outputs, self._output_set)
        input_order = [inputs.index(stream) for stream, _, _ in self._input_plan]
        output_order = [outputs.index(stream) for stream, _, _ in self._output_plan]

        def run(arrays: Sequence[_Array], targets: Sequence[_Array]) -> None:
            with self._lock:
                if self._in_checkpoint:
                    self._refuse_in_checkpoint("run")
                if not self._pb_session._loaded or not self._device.isAttached:
                    self._require_attached("run")
                self._run_core(
                    [arrays[i] for i in input_order],
                    [targets[i] for i in output_order],
                    self._host_functions,
                )

        return run

    def _prepare_input(
        self, stream: HostToDeviceStream, given: Any, kind: np.dtype[Any], downcast: bool
    ) -> _Array | _core.TransferQueue:
        """The slow path: conversion and validation."""
        if stream not in given:
            self._raise_wrong_streams("input", given, self._input_set)
        if isinstance(given[stream], StreamSource):
            return self._queue_of(given[stream], stream, kind)
        array = input_array(given[stream], kind, downcast)
        check_shape(self.ir_, stream, array, "input")
        return in_stream_dtype(stream, array, kind)

    def _queue_of(
        self, callback: StreamCallback, stream: Stream, kind: np.dtype[Any]
    ) -> _core.TransferQueue:
        replicas = self.ir_.instance_replication_factor
        shape = (*((replicas,) if replicas > 1 else ()), *stream.shape)
        return callback.queue_for(stream.tensor_id, shape, replicas, kind)

    def _raise_wrong_streams(self, what: str, given: Any, expected: set[Any]) -> None:
        raise ValueError(
            f"Unexpected/Missing {what}. Wanted exactly "
            f"{sorted(map(str, expected))}; given {sorted(map(str, given))}"
        )

    def _validate_run_inputs(self, inputs: h2dStreamBufferMaps) -> None:
        if set(inputs) != self._input_set:
            self._raise_wrong_streams("input", inputs, self._input_set)
        for stream, array in inputs.items():
            check_shape(self.ir_, stream, np.asarray(array), "input")

    def _validate_run_outputs(
        self, outputs: Mapping[DeviceToHostStream, Any], sinks: Container[Any] = ()
    ) -> None:
        if len(outputs) == len(self._output_set) == len(self._output_plan) and all(
            is_ready(outputs.get(stream), stream, shape, kind) and outputs[stream].flags.writeable
            for stream, shape, kind in self._output_plan
        ):
            return
        if set(outputs) != self._output_set:
            self._raise_wrong_streams("output", outputs, self._output_set)
        for stream, array in outputs.items():
            if stream in sinks:
                continue
            check_output(stream, array)
            check_shape(self.ir_, stream, array, "output")

    # Devices.

    def _get_ipus_per_replica(self) -> int:
        return ipus_per_replica(self.ir_)

    def _get_ipu_count(self) -> int:
        count = self._get_ipus_per_replica() * self.ir_.instance_replication_factor
        return int(2 ** math.ceil(math.log2(count)))
