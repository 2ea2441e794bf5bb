"""Values made of tensors, containers and registered types: their tensors, and the same with others.

A `Node` describes a value once, when a program is compiled; later values are compared with it.
"""

from __future__ import annotations

import copy
import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import Any, NoReturn

import numpy as np
import torch


class ICustomArgParser(ABC):
    """Takes the tensors out of objects of a type and makes such objects of tensors."""

    @abstractmethod
    def yieldTensors(self, struct: Any) -> Iterator[torch.Tensor]:
        """Give the tensors of an object, in an order that is always the same.

        Args:
            struct: The object.

        Yields:
            Its tensors.
        """

    @abstractmethod
    def reconstruct(self, original_structure: Any, tensor_iterator: Iterator[torch.Tensor]) -> Any:
        """Make an object like another one, with other tensors.

        Args:
            original_structure: An object of the type, which stays as it is.
            tensor_iterator: Gives, by `next`, as many tensors as `yieldTensors` gave, in its order.

        Returns:
            A new object.
        """


_parsers: dict[type, ICustomArgParser] = {}


def registerCustomArgParser(data_type: type, parser: ICustomArgParser | None) -> None:
    """Say how the tensors of a type are found, in arguments, results and items of data loaders.

    Args:
        data_type: The type. Its subclasses have the same parser unless they have one of their own.
        parser: The parser; None removes the one that the type has.

    Raises:
        AssertionError: `parser` is something else.
    """
    if parser is None:
        _parsers.pop(data_type, None)
        return
    if not isinstance(parser, ICustomArgParser):
        raise AssertionError(
            f"arg_parser must inherit from ICustomArgParser (given {type(parser).__name__})"
        )
    _parsers[data_type] = parser


def registered_parsers() -> dict[type, ICustomArgParser]:
    """Give what `registerCustomArgParser` was told.

    Returns:
        A new dictionary of parsers by type.
    """
    return dict(_parsers)


def parser_of(value: Any) -> ICustomArgParser | None:
    """Find the parser for a value.

    Args:
        value: Any value.

    Returns:
        The parser of its type; if that has none, of the first registered type that it is of.
    """
    if not _parsers:
        return None
    exact = _parsers.get(type(value))
    if exact is not None:
        return exact
    return next((parser for kind, parser in _parsers.items() if isinstance(value, kind)), None)


class Mismatch(Exception):
    """A value is not like the one that a node describes; the text says where and how."""


def _type_mismatch(name: str, expected: object, value: Any) -> NoReturn:
    raise Mismatch(f"Type mismatch for {name}: expected {expected} but got {type(value)}")


def _length_mismatch(name: str, expected: int, given: int) -> NoReturn:
    raise Mismatch(f"Length mismatch for {name}: expected {expected} but got {given}")


class Node(ABC):
    """Describes one value and what is inside it.

    Args:
        name: What errors call the value.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def collect(self, value: Any, tensors: list[torch.Tensor]) -> None:
        """Compare a value with the one described; append its tensors in that one's order.

        Args:
            value: The value.
            tensors: The list to append to.

        Raises:
            Mismatch: The value has another structure, or other tensors.
        """

    @abstractmethod
    def build(self, tensors: Iterator[torch.Tensor]) -> Any:
        """Make a value like the one described, with containers of its own.

        Args:
            tensors: Gives the tensors, in the order of `collect`.

        Returns:
            The value.
        """

    def leaf_names(self) -> Iterator[str]:
        """Name the tensors.

        Yields:
            What errors call them, in the order of `collect`.
        """
        for child in self.children():
            yield from child.leaf_names()

    def children(self) -> Iterable[Node]:
        """Give what is directly inside.

        Returns:
            The nodes.
        """
        return ()


# A tensor: dtype and shape count.
class _TensorNode(Node):
    def __init__(self, name: str, value: torch.Tensor) -> None:
        super().__init__(name)
        self.dtype = value.dtype
        self.shape = value.shape

    def collect(self, value: Any, tensors: list[torch.Tensor]) -> None:
        if not isinstance(value, torch.Tensor):
            _type_mismatch(self.name, torch.Tensor, value)
        if value.dtype != self.dtype:
            raise Mismatch(
                f"Data type mismatch for {self.name}: expected {self.dtype} but got {value.dtype}."
            )
        if value.shape != self.shape:
            raise Mismatch(
                f"Shape mismatch for {self.name}: expected {self.shape} but got {value.shape}."
            )
        tensors.append(value)

    def build(self, tensors: Iterator[torch.Tensor]) -> torch.Tensor:
        return next(tensors)

    def leaf_names(self) -> Iterator[str]:
        yield self.name


# A value without tensors, which never changes.
class _ValueNode(Node):
    def __init__(self, name: str, value: Any) -> None:
        super().__init__(name)
        self.value = value

    def collect(self, value: Any, tensors: list[torch.Tensor]) -> None:
        if value is self.value:
            return
        if type(value) is not type(self.value):
            _type_mismatch(self.name, type(self.value), value)
        if not self._equals(value):
            raise Mismatch(
                f"Value mismatch for {self.name}: expected {self.value!r} but got {value!r}."
            )

    def _equals(self, value: Any) -> bool:
        expected = self.value
        if isinstance(value, np.ndarray):
            has_nan = value.dtype.kind in "fc"
            same = np.array_equal(value, expected, equal_nan=has_nan)
            return same and value.dtype == expected.dtype
        try:
            both_nan = value != value and expected != expected
            return bool(both_nan or value == expected)
        except (RuntimeError, TypeError, ValueError):
            return False  # the comparison has no truth value

    def build(self, tensors: Iterator[torch.Tensor]) -> Any:
        return self.value


# A tensor of the host: programs change theirs, results keep the values that it has now.
class _HostTensorNode(Node):
    def __init__(self, name: str, value: torch.Tensor) -> None:
        super().__init__(name)
        self.value = value.detach().clone()

    def collect(self, value: Any, tensors: list[torch.Tensor]) -> None:
        if not isinstance(value, torch.Tensor):
            _type_mismatch(self.name, torch.Tensor, value)

    def build(self, tensors: Iterator[torch.Tensor]) -> torch.Tensor:
        return self.value.clone()


# A list, a tuple, a named tuple or an object of a subclass.
class _SequenceNode(Node):
    def __init__(self, name: str, value: Any, items: list[Node]) -> None:
        super().__init__(name)
        self.kind = type(value)
        self.items = items
        self.make: Callable[[list[Any]], Any] = getattr(self.kind, "_make", self.kind)

    def collect(self, value: Any, tensors: list[torch.Tensor]) -> None:
        if type(value) is not self.kind:
            _type_mismatch(self.name, self.kind, value)
        if len(value) != len(self.items):
            _length_mismatch(self.name, len(self.items), len(value))
        for item, node in zip(value, self.items, strict=True):
            node.collect(item, tensors)

    def build(self, tensors: Iterator[torch.Tensor]) -> Any:
        return self.make([item.build(tensors) for item in self.items])

    def children(self) -> Iterable[Node]:
        return self.items


# A dictionary or another mapping that can be changed; later ones may have another order.
class _MappingNode(Node):
    def __init__(self, name: str, value: MutableMapping[Any, Any], items: dict[Any, Node]) -> None:
        super().__init__(name)
        self.kind = type(value)
        # A plain dictionary is not kept, so neither are its tensors.
        self.template = None if self.kind is dict else value
        self.items = items

    def collect(self, value: Any, tensors: list[torch.Tensor]) -> None:
        if type(value) is not self.kind:
            _type_mismatch(self.name, self.kind, value)
        if value.keys() != self.items.keys():
            raise Mismatch(f"Keys mismatch for {self.name}:{self._difference(value)}")
        for key, node in self.items.items():
            node.collect(value[key], tensors)

    def _difference(self, value: MutableMapping[Any, Any]) -> str:
        unexpected = [str(key) for key in value if key not in self.items]
        missing = [str(key) for key in self.items if key not in value]
        text = f" Unexpected arguments: {', '.join(unexpected)}." if unexpected else ""
        return text + (f" Missing arguments: {', '.join(missing)}." if missing else "")

    def build(self, tensors: Iterator[torch.Tensor]) -> Any:
        if self.template is None:
            return {key: item.build(tensors) for key, item in self.items.items()}
        made = copy.copy(self.template)
        for key, item in self.items.items():
            made[key] = item.build(tensors)
        return made

    def children(self) -> Iterable[Node]:
        return self.items.values()


# An object of a dataclass.
class _DataclassNode(Node):
    def __init__(self, name: str, value: Any, items: dict[str, Node]) -> None:
        super().__init__(name)
        self.template = value
        self.items = items

    def collect(self, value: Any, tensors: list[torch.Tensor]) -> None:
        if type(value) is not type(self.template):
            _type_mismatch(self.name, type(self.template), value)
        for field, node in self.items.items():
            node.collect(getattr(value, field), tensors)

    def build(self, tensors: Iterator[torch.Tensor]) -> Any:
        made = copy.copy(self.template)
        for field, item in self.items.items():
            # The dataclass may be frozen.
            object.__setattr__(made, field, item.build(tensors))
        return made

    def children(self) -> Iterable[Node]:
        return self.items.values()


# An object of a type that has a parser.
class _CustomNode(Node):
    def __init__(self, name: str, value: Any, parser: ICustomArgParser, items: list[Node]) -> None:
        super().__init__(name)
        self.template = value
        self.parser = parser
        self.items = items

    def collect(self, value: Any, tensors: list[torch.Tensor]) -> None:
        if type(value) is not type(self.template):
            _type_mismatch(self.name, type(self.template), value)
        yielded = list(self.parser.yieldTensors(value))
        if len(yielded) != len(self.items):
            _length_mismatch(self.name, len(self.items), len(yielded))
        for tensor, node in zip(yielded, self.items, strict=True):
            node.collect(tensor, tensors)

    def build(self, tensors: Iterator[torch.Tensor]) -> Any:
        return self.parser.reconstruct(self.template, (item.build(tensors) for item in self.items))

    def children(self) -> Iterable[Node]:
        return self.items


def _every_tensor(tensor: torch.Tensor) -> bool:
    return True


def describe(
    name: str, value: Any, is_leaf: Callable[[torch.Tensor], bool] = _every_tensor
) -> Node:
    """Describe a value.

    Args:
        name: What errors call it; what is inside has the same name with [key] after it.
        value: A tensor, a list, tuple, mapping, dataclass object or object of a registered type, or
            nestings of these; anything else is a value that never changes.
        is_leaf: Which tensors count as such; of others their values now are kept.

    Returns:
        The node, which holds no tensor that is a leaf unless an object around it, of a registered
        type or a mapping that is not a `dict`, does.
    """
    parser = None if type(value) is torch.Tensor else parser_of(value)
    if parser is not None:
        yielded = enumerate(parser.yieldTensors(value))
        held = [describe(f"{name}[{index}]", tensor, is_leaf) for index, tensor in yielded]
        return _CustomNode(name, value, parser, held)
    if isinstance(value, torch.Tensor):
        return _TensorNode(name, value) if is_leaf(value) else _HostTensorNode(name, value)
    if isinstance(value, list | tuple):
        items = [describe(f"{name}[{i}]", item, is_leaf) for i, item in enumerate(value)]
        return _SequenceNode(name, value, items)
    if isinstance(value, MutableMapping):
        entries = {key: describe(f"{name}[{key}]", value[key], is_leaf) for key in value}
        return _MappingNode(name, value, entries)
    if dataclasses.is_dataclass(value) and not isinstance(value, type | torch.nn.Module):
        names = [field.name for field in dataclasses.fields(value) if hasattr(value, field.name)]
        fields = {one: describe(f"{name}[{one}]", getattr(value, one), is_leaf) for one in names}
        return _DataclassNode(name, value, fields)
    return _ValueNode(name, value)
