"""The compiled program of a session and the raw transfers of its weights."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from pando import _core
from pando.interrupts import HeldInterrupts
from popart.weights_io import PyWeightsIO

if TYPE_CHECKING:
    from popxl.session import Session


class InternalSession:
    """The compiled program and the raw transfers of its weights.

    Args:
        session: The session that it belongs to.
        core: The compiled program.
    """

    def __init__(self, session: Session, core: _core.Session) -> None:
        self._session = weakref.proxy(session)
        self._core = core
        self._loaded = False

    @property
    def program(self) -> _core.Session:
        """The compiled program: `memory`, `compile_report`, `disassembly()`."""
        return self._core

    def trace(self) -> list[_core.InstructionTime]:
        """Read the times of the instructions since the last attach.

        Returns:
            One entry for each execution of an instruction; none unless the session profiles.
        """
        times: list[_core.InstructionTime] = self._core.trace()
        return times

    def actual_peak_bytes(self) -> int:
        """Read the most bytes of device memory that were held at once.

        Returns:
            The number of bytes.
        """
        return int(self._core.actual_peak_bytes)

    def setEngineIsLoaded(self, loaded: bool) -> None:
        """Tell whether the program is loaded.

        Args:
            loaded: With False the next enter loads the program again and uploads the weights.
        """
        with self._session._lock, HeldInterrupts():
            if not loaded:
                self._session._detach_core()
            self._loaded = loaded

    def weightsFromHost(self) -> None:
        """Upload the host values of all variables."""
        with self._session._lock:
            in_sync = self._session._in_sync
            self._session._upload()
            self._session._in_sync = in_sync

    def weightsToHost(self) -> None:
        """Bring the values of all variables back to the host."""
        with self._session._lock:
            self._session._download()

    def writeWeights(self, weights: PyWeightsIO) -> None:
        """Write host values, without checks of dtype and shape beyond those of NumPy.

        Args:
            weights: The arrays by tensor id.

        Raises:
            KeyError: An id is not that of a variable.
            ValueError: An array does not broadcast to the shape of its variable.
        """
        records = self._session.ir._variables
        with self._session._lock:
            for tensor_id, value in weights.weights.items():
                records[tensor_id].write(value)

    def readWeights(self, weights: PyWeightsIO) -> None:
        """Copy host values to arrays.

        Args:
            weights: The arrays to fill, by tensor id.

        Raises:
            KeyError: An id is not that of a variable.
            ValueError: The value does not broadcast to the shape of its array.
        """
        records = self._session.ir._variables
        with self._session._lock:
            for tensor_id, array in weights.weights.items():
                np.copyto(array, records[tensor_id].host_value(tensor_id))

    def getSummaryReport(self) -> str:
        """Describe the device memory of the program.

        Returns:
            Its bytes, and what is alive at the peak, one a line.
        """
        memory = self._core.memory
        cache_file = self._core.compile_report.cache_file
        lines = [
            f"program: {f'from cache {cache_file}' if cache_file else 'compiled'}",
            f"persistent memory: {memory.persistent_bytes} bytes",
            f"peak of the frame: {memory.peak_frame_bytes} bytes",
        ]
        lines += [f"  {t.bytes} bytes  {t.name}  ({t.location})" for t in memory.alive_at_peak]
        return "\n".join(lines)

    def getReport(self) -> Any:
        """Refuse: there are no hardware reports.

        Returns:
            Nothing.

        Raises:
            popart_exception: Always.
        """
        raise _core.popart_exception("there are no hardware reports: use getSummaryReport()")
