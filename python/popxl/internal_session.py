"""The compiled program of a session and the raw transfers of its weights."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from pando import _core
from popart.weights_io import PyWeightsIO

if TYPE_CHECKING:
    from popxl.session import Session


class InternalSession:
    """The compiled program and the raw transfers of its weights."""

    def __init__(self, session: Session, core: _core.Session) -> None:
        self._session = weakref.proxy(session)
        self._core = core
        self._loaded = False

    @property
    def program(self) -> _core.Session:
        """The compiled program: `memory`, `compile_report`, `disassembly()`."""
        return self._core

    def trace(self) -> list[_core.InstructionTime]:
        """Times by instruction since the last attach; empty unless the session profiles."""
        times: list[_core.InstructionTime] = self._core.trace()
        return times

    def actual_peak_bytes(self) -> int:
        """The most bytes of device memory held at once."""
        return int(self._core.actual_peak_bytes)

    def setEngineIsLoaded(self, loaded: bool) -> None:
        """With False the next enter loads the program again and uploads the weights."""
        if not loaded:
            self._core.detach()
        self._loaded = loaded

    def weightsFromHost(self) -> None:
        self._core.weights_from_host()

    def weightsToHost(self) -> None:
        self._core.weights_to_host()

    def writeWeights(self, weights: PyWeightsIO) -> None:
        """Host values by id, without checks of dtype and shape beyond NumPy's own."""
        records = self._session.ir._variables
        for tensor_id, value in weights.weights.items():
            np.copyto(records[tensor_id].data, value, casting="unsafe")

    def readWeights(self, weights: PyWeightsIO) -> None:
        """Fills the arrays with the host values."""
        records = self._session.ir._variables
        for tensor_id, array in weights.weights.items():
            np.copyto(array, records[tensor_id].data)

    def getSummaryReport(self) -> str:
        """Bytes of device memory and what is alive at the peak."""
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
        raise _core.popart_exception("there are no hardware reports: use getSummaryReport()")
