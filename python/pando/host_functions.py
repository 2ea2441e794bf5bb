"""Functions of the host that programs call while they run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pando import _core
from pando.host_arrays import as_array, with_dlpack

_Array = np.ndarray[Any, Any]
_Type = tuple[_core.DType, Sequence[int]]


# How long an idle thread may take to end.
_SECONDS_TO_END = 1.0


class _State:
    """What a function's thread tells: whether it is in the function, and what that raised last."""

    is_busy = False
    error: BaseException | None = None
    message = ""


class HostFunction:
    """A function on a thread of its own, and the queue of a program's calls of it.

    The threads that run the program wait for the function, never for the interpreter. Calls, of all
    replicas, come one after the other. What the function raises ends the run that called it; later
    runs call it again.

    Args:
        name: What programs call it.
        function: It takes an array for each input, its own to keep, and returns an array for each
            output: a tuple or a list of them; where there is one output, it may be the array
            itself, and where there is none, None.
        numpy_dtype: Gives the NumPy type of a dtype of the core.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        numpy_dtype: Callable[[_core.DType], np.dtype[Any]],
    ) -> None:
        self.queue = _core.HostFunctionQueue(name)
        self.number = _core.next_callback()
        self._state = _State()
        # A daemon: a function that never returns does not keep the process. The thread does not
        # keep this object.
        self._thread = threading.Thread(
            target=_work,
            args=(self.queue, self.number, function, numpy_dtype, self._state),
            name=f"host function {name}",
            daemon=True,
        )
        self._thread.start()

    def close(self) -> None:
        """End it: its thread ends when the function returns, and runs that call it fail."""
        self.queue.close()
        # A thread that is left when the interpreter ends would keep what it has.
        if not self._state.is_busy and self._thread is not threading.current_thread():
            self._thread.join(_SECONDS_TO_END)

    def raise_error(self, cause: BaseException | None = None) -> None:
        """Raise what the function raised, if a run ended by that.

        Args:
            cause: The error of the run; None: it ended well.

        Raises:
            BaseException: What the function raised.
        """
        error = self._state.error
        if error is not None and cause is not None and self._state.message in str(cause):
            self._state.error = None
            raise error from cause


def _work(
    queue: _core.HostFunctionQueue,
    number: int,
    function: Callable[..., Any],
    numpy_dtype: Callable[[_core.DType], np.dtype[Any]],
    state: _State,
) -> None:
    _core.enter_callback_thread(number, f"host function {queue.name}")
    while (call := queue.take()) is not None:
        message = None
        state.is_busy = True
        try:
            _run(call, queue.name, function, numpy_dtype)
        except BaseException as error:
            message = f"the host function '{queue.name}' failed: {type(error).__name__}: {error}"
            state.message, state.error = message, error
        state.is_busy = False
        queue.finish(call, message)
        del call  # it has memory of its own


def _run(
    call: _core.HostCall,
    name: str,
    function: Callable[..., Any],
    numpy_dtype: Callable[[_core.DType], np.dtype[Any]],
) -> None:
    inputs = []
    for index, (dtype, shape) in enumerate(call.inputs):
        inputs.append(with_dlpack(np.empty(tuple(shape), numpy_dtype(dtype))))
        call.read_input(index, inputs[-1])
    wanted = call.outputs
    given = _as_list(function(*inputs), len(wanted))
    if len(given) != len(wanted):
        raise ValueError(
            f"host function '{name}': wanted {len(wanted)} outputs; given {len(given)}"
        )
    arrays = [
        _output(value, name, index, tuple(shape), numpy_dtype(dtype))
        for index, (value, (dtype, shape)) in enumerate(zip(given, wanted, strict=True))
    ]
    for index, array in enumerate(arrays):
        call.write_output(index, array)


def _as_list(given: Any, wanted: int) -> list[Any]:
    if given is None and wanted == 0:
        return []
    return list(given) if isinstance(given, (tuple, list)) else [given]


def _output(
    given: Any, name: str, index: int, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> _Array:
    array = as_array(given)
    if array.dtype == dtype and array.shape == shape:
        return np.ascontiguousarray(array).reshape(shape)
    raise ValueError(
        f"host function '{name}': wanted output {index} of shape {shape} and dtype {dtype}; given "
        f"shape {array.shape} and dtype {array.dtype}"
    )
