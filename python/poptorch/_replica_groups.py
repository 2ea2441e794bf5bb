"""Parameters that have a value of their own for each group of replicas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import popxl
from poptorch._impl import createPoptorchError
from poptorch.enums import CommGroupType, VariableRetrievalMode

_Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ReplicaGroups:
    """How replicas share the values of a parameter.

    On the host the parameter has one value for each group, along a first dimension of its own.

    Attributes:
        comm_group_type: How groups are made of replicas.
        shards: The number of replicas of a group; of no meaning for `All` and `NoGrouping`.
        retrieval_mode: Whose values come back from the device.
    """

    comm_group_type: CommGroupType
    shards: int
    retrieval_mode: VariableRetrievalMode

    def group_size(self, replicas: int) -> int:
        """Count the replicas of a group.

        Args:
            replicas: The number of all replicas.

        Returns:
            Their number.
        """
        if self.comm_group_type == CommGroupType.All:
            return replicas
        return 1 if self.comm_group_type == CommGroupType.NoGrouping else self.shards

    def grouping(self, ir: popxl.Ir) -> popxl.ReplicaGrouping:
        """Make the grouping of a program.

        Args:
            ir: The program.

        Returns:
            The grouping.
        """
        size = self.group_size(ir.replication_factor)
        is_orthogonal = self.comm_group_type == CommGroupType.Orthogonal
        stride = ir.replication_factor // size if is_orthogonal else 1
        return ir.replica_grouping(stride=stride, group_size=size)

    def assignment(self, replicas: int) -> list[int]:
        """Tell the group of each replica.

        Args:
            replicas: The number of all replicas.

        Returns:
            The number of the group, by replica.
        """
        size = self.group_size(replicas)
        if self.comm_group_type == CommGroupType.Orthogonal:
            return [replica % (replicas // size) for replica in range(replicas)]
        return [replica // size for replica in range(replicas)]

    def to_device(self, name: str, array: _Array, replicas: int) -> _Array:
        """Lay out a value of the host for the program, which has no dimension for a single group.

        Args:
            name: The name of the parameter.
            array: Its value; one entry for each group or, if all are read back, for each replica.
            replicas: The number of all replicas.

        Returns:
            The array for the program.

        Raises:
            Error: There is another number of entries.
        """
        assignment = self.assignment(replicas)
        count = max(assignment) + 1
        entries = array.shape[0] if array.ndim else 0
        reads_all = self.retrieval_mode == VariableRetrievalMode.AllReplicas
        if entries != count and not (reads_all and entries == replicas):
            raise createPoptorchError(
                f"{name} has one value for each of {count} groups of replicas: wanted a "
                f"first dimension of {count}; given shape {list(array.shape)}"
            )
        if entries != count:
            array = array[[assignment.index(group) for group in range(count)]]
        return array[0] if count == 1 else array

    def to_host(self, array: _Array, replicas: int) -> _Array:
        """Lay out a value of the program for the host.

        Args:
            array: The value as the program has it.
            replicas: The number of all replicas.

        Returns:
            An array with one entry for each group or, if all are read back, for each replica.
        """
        assignment = self.assignment(replicas)
        if max(assignment) == 0:
            array = array[np.newaxis]
        if self.retrieval_mode == VariableRetrievalMode.AllReplicas:
            return array[assignment]
        return array


def check_groups(parameter: torch.Tensor, groups: ReplicaGroups, replicas: int) -> None:
    """Check that a parameter can have values for groups of replicas.

    Args:
        parameter: The parameter.
        groups: The groups.
        replicas: The number of all replicas.

    Raises:
        Error: The parameter has no dimension for the groups.
        TypeError: A setting is of another type.
        ValueError: The replicas cannot be divided so.
    """
    for what, value, kind in (
        ("comm_group_type", groups.comm_group_type, CommGroupType),
        ("variable_retrieval_mode", groups.retrieval_mode, VariableRetrievalMode),
    ):
        if not isinstance(value, kind):
            raise TypeError(
                f"replicaGrouping: wanted {what} of type poptorch.{kind.__name__}; given {value!r}"
            )
    if parameter.dim() == 0:
        raise createPoptorchError("Scalars cannot be passed as per-replica weight tensor values")
    if groups.comm_group_type in (CommGroupType.All, CommGroupType.NoGrouping):
        return
    if isinstance(groups.shards, bool) or not isinstance(groups.shards, int):
        raise TypeError(f"replicaGrouping: wanted shards of type int; given {groups.shards!r}")
    if groups.shards < 1 or replicas % groups.shards:
        raise ValueError(
            f"replicaGrouping: wanted shards, the number of replicas of a group, to divide the "
            f"replication factor {replicas}; given {groups.shards}"
        )


class PerReplicaParameter:
    """A parameter of the top module, as an executor gives it: in all but one method itself.

    Args:
        parameter: The parameter.
        register: Notes groups for it.
    """

    _parameter: torch.nn.Parameter
    _register: Callable[[ReplicaGroups], None]

    def __init__(
        self, parameter: torch.nn.Parameter, register: Callable[[ReplicaGroups], None]
    ) -> None:
        self.__dict__.update(_parameter=parameter, _register=register)

    def replicaGrouping(
        self,
        comm_group_type: CommGroupType,
        shards: int,
        variable_retrieval_mode: VariableRetrievalMode,
    ) -> None:
        """Let the parameter have a value of its own for each group of replicas.

        Its first dimension counts the groups; `forward` sees the parameter without it. Gradients
        are reduced within a group only. Call this before compilation.

        Args:
            comm_group_type: How groups are made of replicas.
            shards: The number of replicas of a group; of no meaning for `All` and `NoGrouping`.
            variable_retrieval_mode: Whether one value for each group comes back from the device, or
                one for each replica.

        Raises:
            Error: The model is compiled, or the parameter is a scalar.
            TypeError: An argument is of another type.
            ValueError: The replicas cannot be divided so.
        """
        self._register(ReplicaGroups(comm_group_type, shards, variable_retrieval_mode))

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._parameter)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parameter, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._parameter, name, value)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call a function of torch with the parameter.

        Args:
            func: The function.
            types: The classes of its tensors.
            args: Its positional arguments.
            kwargs: Its keyword arguments.

        Returns:
            What it returns.
        """
        return func(*map(_plain, args), **{k: _plain(v) for k, v in (kwargs or {}).items()})


def _plain(value: Any) -> Any:
    if type(value) is PerReplicaParameter:
        return value._parameter
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    return value


def _forwarded(name: str) -> Any:
    def call(self: PerReplicaParameter, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._parameter, name)(*map(_plain, args), **kwargs)

    return call


_OWN = {
    *PerReplicaParameter.__dict__,
    *("__class_getitem__", "__delattr__", "__dir__", "__getattribute__"),
    *("__init_subclass__", "__new__", "__subclasshook__"),
}
# Python looks for operators in the class.
for _name in dir(torch.Tensor):
    if _name.startswith("__") and _name not in _OWN and callable(getattr(torch.Tensor, _name)):
        setattr(PerReplicaParameter, _name, _forwarded(_name))
