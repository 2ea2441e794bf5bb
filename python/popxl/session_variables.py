"""Reading and writing the variables of a session."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from pando import _core
from pando._core import CallLock
from pando.interrupts import HeldInterrupts
from pando.missing_names import nearest_names
from pando.transfer_parts import parts_of
from popxl.host_values import checked_host_value, host_value
from popxl.ir import Ir
from popxl.tensor import Constant, Tensor, Variable

_Array = np.ndarray[Any, Any]


class SessionVariables:
    """The part of a session that moves values of variables between the host and the device."""

    ir_: Ir
    _core: _core.Session
    # Guards what touches the device or the host values: a call is whole before another begins.
    # A CallLock once a run may wait for functions.
    _lock: threading.RLock | CallLock
    _in_sync: bool
    _in_checkpoint: bool
    weights_to_host_on_exit: bool
    _keeps_host_values: bool
    # Ids of variables whose host values this session gave up.
    _given_up: set[str]

    @property
    def is_attached(self) -> bool:
        """Whether the session holds a device."""
        raise NotImplementedError

    def _require_attached(self, what: str) -> None:
        raise NotImplementedError

    def _refuse_in_checkpoint(self, what: str) -> None:
        """For the thread that saves or loads the session; others wait until it has ended."""
        raise RuntimeError(
            f"{what}: the session is being saved to a checkpoint or loaded from one: the function "
            "given as `progress` may read the session, not run or change it"
        )

    def _upload(self) -> None:
        for name in self._core.variable_ids:
            self.ir_._variables[name].host_value(name)
        if self._gives_up:
            for names in self._parts(self._core.variable_ids):
                self._core.weights_from_host(names)
                self._give_up(names)
        else:
            self._core.weights_from_host()
        self._in_sync = True

    @property
    def _gives_up(self) -> bool:
        """Whether the host keeps no values that the device has."""
        return not self._keeps_host_values and self.weights_to_host_on_exit

    def _parts(self, names: Iterable[str]) -> Iterator[list[str]]:
        """All variables with these names, or some at a time where the host is to keep none."""
        if self._gives_up:
            return parts_of({name: self.ir_._variables[name].data.nbytes for name in names})
        return iter([list(names)])

    def _give_up(self, names: Iterable[str]) -> None:
        """What the device has now is given up on the host, if the session is to do so."""
        if not self._gives_up:
            return
        for name in names:
            # Before its value goes: after Ctrl-C in between it is brought back all the same.
            self._given_up.add(name)
            if not self.ir_._variables[name].give_up():
                self._given_up.discard(name)

    def _only_on_device(self, names: Iterable[str]) -> list[str]:
        """Those that this session gave up and nobody has written since."""
        given_up, records = self._given_up, self.ir_._variables
        return [name for name in names if name in given_up and records[name].only_on_device]

    def _download(self, names: Iterable[str] | None = None) -> None:
        """The values of the variables with these names, None: of all, to the host."""
        wanted = self._core.variable_ids if names is None else self._in_program(names)
        self._core.weights_to_host(None if names is None else wanted)
        self._note_on_host(wanted)

    def _note_on_host(self, names: Iterable[str]) -> None:
        for name in names:
            self.ir_._variables[name].only_on_device = False
            self._given_up.discard(name)

    def _take_back(self) -> None:
        """Brings what the host does not have, before the device goes."""
        names = self._only_on_device(self._given_up)
        if names and self._core.is_attached:
            self._download(names)

    def _mark_device_changed(self) -> None:
        """The device has newer values than the host."""
        self._in_sync = False

    def weights_from_host(self) -> None:
        """Upload the host values of all variables.

        Raises:
            ValueError: The session is not attached, or has no host values (the setting
                `keep_host_values`).
            RuntimeError: A checkpoint is being saved or loaded, and `progress` calls this.
        """
        with self._lock:
            if self._in_checkpoint:
                self._refuse_in_checkpoint("weights_from_host")
            self._require_attached("weights_from_host")
            self._upload()

    def weights_to_host(self) -> None:
        """Bring the values of all variables back to the host.

        Raises:
            ValueError: The session is not attached.
            Exception: A variable is a read-only memory-mapped array.
        """
        self._bring_back()

    def _bring_back(self, last: bool = False) -> None:
        with self._lock:
            self._require_attached("weights_to_host")
            self._refuse_read_only("weights_to_host")
            if last:
                self._core.weights_to_host_and_detach()
            else:
                self._core.weights_to_host()
            self._in_sync = True
            self._note_on_host(self._core.variable_ids)
        for record in self.ir_._variables.values():
            if isinstance(record.data, np.memmap):
                record.data.flush()

    def get_tensor_data(self, tensor: Tensor) -> _Array:
        """Read the host value of a variable or constant, which is brought up to date first.

        Args:
            tensor: The variable or constant.

        Returns:
            The host value itself, not a copy, in `shape_on_host`; later transfers change it.

        Raises:
            TypeError: It is another tensor.
        """
        return self.get_tensors_data([tensor])[tensor]

    def get_tensors_data(self, tensors: Iterable[Tensor]) -> dict[Tensor, _Array]:
        """Read host values of variables and constants, with at most one transfer.

        Args:
            tensors: The variables and constants.

        Returns:
            The host values themselves, not copies, by tensor; later transfers change them.

        Raises:
            TypeError: There is another tensor.
        """
        tensors = list(tensors)
        for tensor in tensors:
            if not isinstance(tensor, (Variable, Constant)):
                raise TypeError(
                    f"{tensor!r} is not of type Constant or Variable: only these have host data"
                )
        variables = [tensor for tensor in tensors if isinstance(tensor, Variable)]
        with self._lock:
            names = [tensor.id for tensor in variables]
            has_newer = bool(names) and not self._in_sync
            if self.is_attached and (has_newer or self._only_on_device(names)):
                self.weights_to_host()
            for tensor in variables:
                tensor._record.is_shown = True
            return {tensor: host_value(tensor) for tensor in tensors}

    def write_variable_data(self, tensor: Variable, data: Any) -> None:
        """Write a new value of a variable, with the errors of `write_variables_data`.

        Args:
            tensor: The variable.
            data: An array of its dtype and `shape_on_host`, or a number.
        """
        self.write_variables_data({tensor: data})

    def write_variables_data(self, tensors: Mapping[Variable, Any]) -> None:
        """Write new values of variables, on the host and, when attached, on the device.

        Args:
            tensors: An array of the dtype and `shape_on_host` of each variable, or a number, which
                is cast.

        Raises:
            TypeError: There is another tensor, or data of another kind or dtype.
            ValueError: Data have another shape.
            NotImplementedError: A variable is read from all replicas of groups of several.
        """
        with self._lock:
            self._write(
                {tensor: checked_host_value(tensor, data) for tensor, data in tensors.items()}
            )

    def _write(self, arrays: Mapping[Variable, _Array]) -> None:
        """New host values, which alone are uploaded: the others stay as they are on the device."""
        if self._in_checkpoint:
            self._refuse_in_checkpoint("writing variables")
        records = {tensor.id: (tensor._record, array) for tensor, array in arrays.items()}
        with HeldInterrupts():
            for part in self._parts(records):
                for record, array in (records[name] for name in part):
                    record.write(array)
                if self.is_attached:
                    names = self._in_program(part)
                    self._core.weights_from_host(names)
                    self._give_up(names)

    def _refuse_read_only(self, what: str) -> None:
        if self.ir_._has_read_only_memmap:
            raise Exception(
                f"{what}: a variable is a read-only memory-mapped array and cannot be written"
            )

    # By name.

    def get_variable(self, name: str) -> _Array:
        """Read the value of a variable, which alone is brought from the device.

        Args:
            name: The name (id) of the variable.

        Returns:
            A new array in `shape_on_host`.

        Raises:
            ValueError: There is no such variable; the error names those that are like it.
            Exception: Variables are read-only memory-mapped arrays and the device has newer values.
        """
        return self.get_variables([name])[name]

    def get_variables(self, names: Iterable[str] | None = None) -> dict[str, _Array]:
        """Read the values of variables, which alone are brought from the device.

        Args:
            names: Their names (ids); None: all variables.

        Returns:
            A new array in `shape_on_host` by name.

        Raises:
            ValueError: There is no such variable; the error names those that are like it.
            Exception: Variables are read-only memory-mapped arrays and the device has newer values.
        """
        tensors = self._variables_called(self.ir_._variables if names is None else names)
        values: dict[str, _Array] = {}
        with self._lock:
            if self.is_attached and not self._in_sync:
                self._refuse_read_only("get_variables")
            for part in self._parts(tensors):
                newer = self._only_on_device(part) if self._in_sync else part
                if self.is_attached and newer:
                    self._download(newer)
                values |= {name: host_value(tensors[name]).copy() for name in part}
                if self.is_attached:
                    self._give_up(self._in_program(part))
        return values

    def set_variable(self, name: str, value: Any) -> None:
        """Write a new value of a variable, with the errors of `set_variables`.

        Args:
            name: The name (id) of the variable.
            value: An array of its dtype and `shape_on_host`, or a number, which is cast.
        """
        self.set_variables({name: value})

    def set_variables(self, values: Mapping[str, Any]) -> None:
        """Write new values of variables, on the host and, when attached, on the device.

        All values are checked before the first one is written; other variables are not moved.

        Args:
            values: By name (id), an array of the dtype and `shape_on_host` of the variable, or a
                number, which is cast.

        Raises:
            ValueError: There is no such variable, and the error names those that are like it; or a
                value has another shape.
            TypeError: A value is of another kind or dtype.
            NotImplementedError: A variable is read from all replicas of groups of several.
        """
        tensors = self._variables_called(values)
        with self._lock:
            self._write({t: checked_host_value(t, values[name]) for name, t in tensors.items()})

    def _variables_called(self, names: Iterable[str]) -> dict[str, Variable]:
        records = self.ir_._variables
        tensors: dict[str, Variable] = {}
        for name in names:
            if name not in records:
                raise ValueError(
                    f"there is no variable called {name!r} in {self.ir_.id}: "
                    f"{nearest_names(name, records)}"
                )
            tensor = self.ir_.main_graph.get_tensor(name)
            assert isinstance(tensor, Variable)
            tensors[name] = tensor
        return tensors

    def _in_program(self, names: Iterable[str]) -> list[str]:
        """Those of the variables that the program uses: the device has no others."""
        return [name for name in names if name in self._used_variables]

    @cached_property
    def _used_variables(self) -> frozenset[str]:
        """The ids of the variables that the program uses."""
        return frozenset(self._core.variable_ids)
