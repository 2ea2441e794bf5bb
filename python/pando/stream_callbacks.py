"""Functions of the host that feed the streams of a program, or take what it stores, as it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from pando import _core
from pando.host_arrays import as_array, with_dlpack
from pando.host_functions import HostFunction

_Array = np.ndarray[Any, Any]
_Result = TypeVar("_Result")


class StreamCallback:
    """A function on a thread of its own, and the queue between it and the program.

    Args:
        room: How many transfers the queue holds, 1 or more.

    Raises:
        ValueError: `room` is no int of 1 or more.
    """

    _host_to_device: bool

    def __init__(self, room: int) -> None:
        if isinstance(room, bool) or not isinstance(room, int) or room < 1:
            raise ValueError(
                f"{type(self).__name__}: wanted room for 1 transfer or more; given {room!r}"
            )
        self._room = room
        self._queue: _core.TransferQueue | None = None
        self._form: tuple[str, tuple[int, ...], np.dtype[Any]] | None = None
        self._error: BaseException | None = None
        self._message = ""
        self._changed = threading.Condition()
        self._ended = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self.number = _core.next_callback()

    def queue_for(
        self, name: str, shape: tuple[int, ...], parts: int, dtype: np.dtype[Any]
    ) -> _core.TransferQueue:
        """Find the queue between the function and a stream.

        Args:
            name: The stream.
            shape: The shape of one transfer, of all replicas of this process.
            parts: The number of these replicas.
            dtype: The dtype of the stream.

        Returns:
            The queue, which is the same for every call.

        Raises:
            ValueError: It was closed, or is in use for another stream.
        """
        form = (name, shape, np.dtype(dtype))
        if self._closed and self._queue is None:
            raise ValueError(f"{type(self).__name__} for stream '{name}': it is closed")
        if self._form is not None and self._form != form:
            raise ValueError(
                f"{type(self).__name__}: it is in use for stream '{self._form[0]}', with transfers "
                f"of shape {self._form[1]} and dtype {self._form[2]}; given stream '{name}', with "
                f"{shape} and {form[2]}. Make one for each stream"
            )
        if self._queue is None:
            part_bytes = int(np.prod(shape, dtype=np.int64)) * form[2].itemsize // parts
            self._queue = _core.TransferQueue(
                name, self._host_to_device, part_bytes, parts, self._room
            )
            self._form = form
            # A daemon: a function that never returns does not keep the process.
            self._thread = threading.Thread(
                target=self._work, args=(self._queue, form), name=f"stream {name}", daemon=True
            )
        return self._queue

    def start(self) -> None:
        """Start the thread of a callback that has a queue, unless it has started already."""
        if self._thread is not None and self._thread.ident is None:
            self._thread.start()

    def close(self) -> None:
        """End it: nothing more goes through, and its thread ends when the function returns."""
        self._closed = True
        if self._queue is not None:
            self._queue.close()

    def raise_error(self, cause: BaseException | None = None) -> None:
        """Raise what the function raised, if it did.

        Args:
            cause: The error of a run, in place of which it is raised if it came of it.

        Raises:
            BaseException: What the function raised.
        """
        if self._error is not None and (cause is None or self._message in str(cause)):
            raise self._error from cause

    def _work(
        self,
        queue: _core.TransferQueue,
        form: tuple[str, tuple[int, ...], np.dtype[Any]],
    ) -> None:
        _core.enter_callback_thread(self.number, f"stream {form[0]}")
        try:
            self._move_all(queue, *form)
        except BaseException as error:
            self._error = error
            self._message = (
                f"stream '{form[0]}': its function failed: {type(error).__name__}: {error}"
            )
            queue.fail(self._message)
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _move_all(
        self, queue: _core.TransferQueue, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        raise NotImplementedError


class StreamSource(StreamCallback):
    """Gives the transfers of a stream to the device, one after the other, as programs need them.

    Where a session's `run` takes an array for a stream it takes a source as well. The function is
    called on a thread of its own, ahead of the program; the threads that run the program never wait
    for the interpreter. What it gave ahead in one run is there for the next one. A run may wait for
    the function, so that calls of the session from it raise RuntimeError during runs.

    Args:
        pull: A function without arguments that returns one transfer, or something to iterate over.
            A transfer is an array or tensor of the stream's dtype and shape, with an axis in front
            for the replicas where there are several. StopIteration, or the end of the iteration,
            is the end of the data: a run that needs more then fails with an error that names the
            stream.
        ahead: How many transfers are kept for programs to come, 1 or more.

    Raises:
        TypeError: `pull` can neither be called nor iterated over.
        ValueError: `ahead` is no int of 1 or more.
    """

    _host_to_device = True

    def __init__(self, pull: Callable[[], Any] | Iterable[Any], ahead: int = 2) -> None:
        super().__init__(ahead)
        self._pull: Callable[[], Any]
        if callable(pull):
            self._pull = pull
        elif isinstance(pull, Iterable):
            self._pull = iter(pull).__next__
        else:
            raise TypeError(
                f"StreamSource: wanted a function or something to iterate over; given {pull!r}"
            )

    def _move_all(
        self, queue: _core.TransferQueue, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        while not self._closed:
            try:
                given = self._pull()
            except StopIteration:
                queue.close()
                return
            if not queue.put(_transfer(given, name, shape, dtype)):
                return


class StreamSink(StreamCallback):
    """Takes the transfers of a stream from the device, one after the other, as programs store them.

    Where a session's `run_with_outputs` takes an array for a stream it takes a sink as well. The
    function is called on a thread of its own while the program runs; `run_with_outputs` returns
    when the function has had all that the run stored. A function that is slower than the program
    makes the program wait. The session is busy until it returns: calls of the session from the
    function raise RuntimeError.

    Args:
        push: A function that gets each transfer: a new array of the stream's dtype and shape, with
            an axis in front for the replicas where there are several.
        room: How many transfers the program may be ahead of the function, 1 or more.

    Raises:
        TypeError: `push` cannot be called.
        ValueError: `room` is no int of 1 or more.
    """

    _host_to_device = False

    def __init__(self, push: Callable[[_Array], Any], room: int = 2) -> None:
        super().__init__(room)
        if not callable(push):
            raise TypeError(f"StreamSink: wanted a function; given {push!r}")
        self._push = push
        self._pushed = 0

    def _move_all(
        self, queue: _core.TransferQueue, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        while True:
            transfer = with_dlpack(np.empty(shape, dtype))
            if not queue.take(transfer):
                return
            self._push(transfer)
            with self._changed:
                self._pushed += 1
                self._changed.notify_all()

    def flush(self) -> None:
        """Wait until the function has had all that runs have stored so far, or has failed."""
        if self._queue is None:
            return
        wanted = self._queue.transfers
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._pushed >= wanted)


def _transfer(given: Any, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> _Array:
    array = as_array(given)
    if array.dtype == dtype and array.shape == shape:
        return np.ascontiguousarray(array).reshape(shape)
    raise ValueError(
        f"stream '{name}': wanted a transfer of shape {shape} and dtype {dtype} from its function; "
        f"given shape {array.shape} and dtype {array.dtype}"
    )


def run_with_callbacks(
    run: Callable[..., _Result],
    callbacks: Sequence[StreamCallback | HostFunction],
    lock: _core.CallLock,
) -> Callable[..., _Result]:
    """Make a function that runs a program and waits for the sinks among its callbacks.

    Args:
        run: Runs the program.
        callbacks: Those whose queues it uses, and the functions that it calls.
        lock: What the caller holds, and refuses calls by the callbacks while the program runs.

    Returns:
        A function with the parameters and the result of `run`. It raises what a function of a
        callback raised, if one did.
    """

    def run_and_flush(*arguments: Any) -> _Result:
        try:
            lock.begin_run([callback.number for callback in callbacks])
            for callback in callbacks:
                if isinstance(callback, StreamCallback):
                    callback.start()
            result = run(*arguments)
            for callback in callbacks:
                if isinstance(callback, StreamSink):
                    callback.flush()
        except _core.popart_runtime_error as error:
            for callback in callbacks:
                callback.raise_error(error)
            raise
        finally:
            lock.end_run()
        for callback in callbacks:
            if isinstance(callback, StreamSink):
                callback.raise_error()
        return result

    return run_and_flush
