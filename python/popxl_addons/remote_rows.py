"""Rows of the remote buffers of a session, read and written from the host."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

import popxl
from pando import _core


class RemoteRows:
    """Reads and writes rows of an entered session.

    Args:
        session: The session.
        buffers: Its buffers by key.
    """

    def __init__(self, session: popxl.Session, buffers: Mapping[str, popxl.RemoteBuffer]) -> None:
        self._session = session
        self._buffers = buffers
        self._index = {int(buffer.id): i for i, buffer in enumerate(self._core.remote_buffers)}

    @property
    def _core(self) -> Any:
        return self._session._pb_session.program

    @property
    def total_bytes(self) -> int:
        """All remote buffers of all replicas of the session, wherever they are."""
        return self._replicas * sum(
            int(buffer.entries) * math.prod(buffer.shape) * int(_core.dtype_bytes(buffer.dtype))
            for buffer in self._core.remote_buffers
        )

    @property
    def _replicas(self) -> int:
        return int(self._core.num_replicas)

    def write(
        self, key: str, row: int, value: np.ndarray, replicas: Iterable[int] | None = None
    ) -> None:
        """Writes one row.

        Args:
            key: That of the buffer.
            row: The row.
            value: An array of the shape and dtype of the buffer's rows.
            replicas: Those whose row is written; None: all.
        """
        for replica in range(self._replicas) if replicas is None else replicas:
            self._core.write_remote(replica, self._index_of(key), row, value)

    def read(self, key: str, row: int) -> np.ndarray:
        """Reads one row of the first replica.

        Args:
            key: That of the buffer.
            row: The row.

        Returns:
            A new array.
        """
        buffer = self._buffers[key]
        value = np.empty(buffer.tensor_shape, buffer.tensor_dtype.as_numpy())
        self.read_into(key, row, value)
        return value

    def read_into(self, key: str, row: int, value: np.ndarray, replica: int = 0) -> None:
        """Reads one row into an array.

        Args:
            key: That of the buffer.
            row: The row.
            value: A contiguous array of the shape and dtype of the buffer's rows, which is written.
            replica: The replica that has the row.
        """
        self._core.read_remote(replica, self._index_of(key), row, value)

    def _index_of(self, key: str) -> int:
        return self._index[self._buffers[key].remote_buffer_id]
