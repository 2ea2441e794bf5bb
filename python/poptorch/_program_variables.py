"""The variables of a compiled program: those in its memory, and those in rows of remote buffers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import popxl
from pando.file_arrays import file_array, release_pages
from poptorch._lower.phase_rows import StoredRow
from popxl_addons.remote_rows import RemoteRows

_Array = np.ndarray[Any, Any]


class ProgramVariables:
    """Reads and writes variables by name.

    Rows live as long as the device is held. `keep` and `attached` let them live on; what was kept
    is there until `forget_kept`, since a device that was just taken may be given up again.

    Args:
        session: The session of the program.
        rows: The variables that are in rows, by name.
        folder: Where arrays with the values of rows are; None: in memory.
    """

    def __init__(
        self,
        session: popxl.Session,
        rows: Mapping[str, StoredRow] | None = None,
        folder: str | None = None,
    ) -> None:
        self._session = session
        self._places = dict(rows or {})
        self._folder = folder
        buffers = {name: one.row.buffer for name, one in self._places.items()}
        self._rows = RemoteRows(session, buffers)
        # What the host has of rows while no device is held.
        self._kept: dict[str, _Array] = {}

    @property
    def remote_bytes(self) -> int:
        """The size of all remote buffers."""
        return self._rows.total_bytes

    def is_remote(self, name: str) -> bool:
        """Tell where a variable is.

        Args:
            name: Its name.

        Returns:
            Whether it is a row.
        """
        return name in self._places

    def get_variable(self, name: str) -> _Array:
        """Read a variable.

        Args:
            name: Its name.

        Returns:
            A new array.

        Raises:
            ValueError: There is no such variable.
        """
        return self.get_variables([name])[name]

    def get_variables(self, names: Iterable[str]) -> dict[str, _Array]:
        """Read variables.

        Args:
            names: Their names.

        Returns:
            New arrays by name; those of rows are in files if the executor has a folder.

        Raises:
            ValueError: There is no such variable.
        """
        names = list(names)
        values = {name: self._read_row(name) for name in names if name in self._places}
        others = [name for name in names if name not in values]
        if others:
            values |= self._session.get_variables(others)
        return values

    def set_variables(self, arrays: Mapping[str, Any]) -> None:
        """Write variables.

        Args:
            arrays: The values by name.

        Raises:
            ValueError: There is no such variable, or a value has another shape.
        """
        for name in self._places.keys() & arrays.keys():
            self._write_row(name, np.asarray(arrays[name]))
        others = {name: one for name, one in arrays.items() if name not in self._places}
        if others:
            self._session.set_variables(others)

    def attached(self) -> None:
        """Give rows the values that they begin with, or had when the device was given up."""
        for name, place in self._places.items():
            if name in self._kept:
                self._write_row(name, self._kept[name])
            elif place.initial:
                kind = place.row.buffer.tensor_dtype.as_numpy()
                self._write_row(name, np.full(place.shape, place.initial, kind))

    def forget_kept(self) -> None:
        """Let go of what `keep` brought: the device has it."""
        self._kept.clear()

    def keep(self) -> None:
        """Bring the rows that nothing else has to the host, before the device is given up."""
        for name, place in self._places.items():
            if place.initial is not None:
                self._kept[name] = self._read_row(name)

    def _write_row(self, name: str, value: _Array) -> None:
        place = self._places[name]
        if value.shape != place.shape:
            raise ValueError(f"variable '{name}': wanted shape {place.shape}; given {value.shape}")
        if not self._session.is_attached:
            self._kept[name] = value
            return
        for replicas, part in _by_group(place, np.ascontiguousarray(value)):
            self._rows.write(name, place.row.number, part, replicas)
        release_pages(value.ctypes.data)

    def _read_row(self, name: str) -> _Array:
        place = self._places[name]
        if not self._session.is_attached:
            return self._kept_row(name)
        kind = place.row.buffer.tensor_dtype.as_numpy()
        if self._folder is None:
            value = np.empty(place.shape, kind)
        else:
            value = file_array(self._folder, place.shape, kind)
        for replicas, part in _by_group(place, value):
            self._rows.read_into(name, place.row.number, part, replicas[0] if replicas else 0)
        release_pages(value.ctypes.data)
        return value

    def _kept_row(self, name: str) -> _Array:
        if name not in self._kept:
            raise ValueError(f"variable '{name}' has no value: the model is not on a device")
        return self._kept[name].copy()


def _by_group(place: StoredRow, value: _Array) -> Iterator[tuple[Sequence[int] | None, _Array]]:
    """The replicas that share a part of a value, and that part; None stands for all replicas."""
    groups = place.replicas_of_groups
    if not groups:
        yield None, value
    for group, replicas in enumerate(groups):
        yield replicas, value[group, ...]  # a view, also of a single number
