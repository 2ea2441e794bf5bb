"""An insertion-ordered tree whose leaves are reached by dotted names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from popxl_addons.utils import OrderedDict, duplicate_items

Leaf = TypeVar("Leaf")
Tree = TypeVar("Tree", bound="DotTree[Any]")


def sanitise(name: str) -> str:
    """Makes a Python identifier of `name`: other characters and a leading digit get `_`."""
    clean = re.sub(r"\W", "_", name)
    return f"_{clean}" if clean[:1].isdigit() else clean


def to_mapping(a: DotTree[Any], b: DotTree[Any]) -> dict[Any, Any]:
    """Leaf of `a` -> leaf of `b` for the flat keys that both have, in no stated order."""
    left, right = a.to_dict(), b.to_dict()
    return {left[key]: right[key] for key in left.keys() & right.keys()}


def _checked_key(key: int | str) -> str:
    """The key as text. Raises ValueError when a component is no number and no identifier."""
    if isinstance(key, int):
        if key < 0:
            raise ValueError(f"Cannot insert under the negative key {key}; use 0 or more.")
        return str(key)
    for part in key.split("."):
        if not (part.isdigit() or part.isidentifier()):
            raise ValueError(
                f"'{key}' cannot be a key: '{part}' is neither a number nor a Python identifier."
            )
    return key


class DotTree(Generic[Leaf]):
    """An ordered map from names to leaves or further trees.

    A flat key is the path of a leaf joined by dots. `tree.a.b`, `tree["a.b"]` and
    `tree.get("a.b")` are the same leaf. Trees given as values are kept by reference.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._map: dict[str, Any] = {}
        for key, value in kwargs.items():
            self.insert(key, value)

    # Reading one item -----------------------------------------------------------------------

    def get(self, key: int | str) -> Any:
        """The leaf or tree under `key`.

        A negative number counts back from one past the highest number among the keys.
        Raises KeyError when there is none, ValueError for a negative number in a tree without
        numeric keys.
        """
        if isinstance(key, int):
            return self._child(self._positive_key(key) if key < 0 else str(key))
        if "." not in key:
            return self._child(key)
        head, rest = key.split(".", 1)
        child = self._child(head)
        if not isinstance(child, type(self)):
            raise KeyError(f"'{key}': '{head}' is a {type(child).__name__}, not a tree")
        return child.get(rest)

    def _child(self, key: str) -> Any:
        if key not in self._map:
            raise KeyError(f"'{key}' is not among the keys {self.keys()}")
        return self._map[key]

    def _positive_key(self, key: int) -> str:
        numbers = [int(name) for name in self._map if name.isdigit()]
        if not numbers:
            raise ValueError(f"{key} needs numeric keys to count back from; got {self.keys()}.")
        position = max(numbers) + 1 + key
        if position < 0:
            raise KeyError(f"{key} is before the first of the numeric keys {sorted(numbers)}")
        return str(position)

    def __getitem__(self, key: int | str) -> Any:
        return self.get(key)

    def __getattr__(self, key: str) -> Any:
        # Python's own protocols probe for names such as __deepcopy__ before __init__ has run.
        if key == "_map" or (key.startswith("__") and key.endswith("__")):
            raise AttributeError(key)
        try:
            return self.get(key)
        except KeyError:
            raise AttributeError(
                f"{type(self).__name__} has no attribute or key '{key}'. Keys: {self.keys()}"
            ) from None

    def __contains__(self, key: int | str) -> bool:
        try:
            self.get(key)
        except KeyError:
            return False
        return True

    # Changing -------------------------------------------------------------------------------

    def insert(self, key: int | str, value: Any, overwrite: bool = False) -> None:
        """Puts `value` under `key`; dotted keys make nested trees.

        The first component must be new unless `overwrite`. Then a nested tree is copied before
        it is extended, so that other holders of that tree do not see the change.
        """
        name = _checked_key(key)
        head, _, rest = name.partition(".")
        if head in self._map and not overwrite:
            raise ValueError(
                f"'{head}' already exists in this {type(self).__name__} (inserting '{name}'). "
                "Pass overwrite=True to replace it."
            )
        if not rest:
            self._map[head] = value
            return
        nested = self._nested(head, name).copy() if head in self._map else type(self)()
        nested.insert(rest, value, overwrite)
        self._map[head] = nested

    def _nested(self, head: str, name: str) -> DotTree[Leaf]:
        child = self._map[head]
        if not isinstance(child, DotTree):
            raise AttributeError(f"Cannot put '{name}' below '{head}', which is a leaf: {child}")
        return child

    def _extend(self, name: str, value: Any) -> None:
        """As insert, but nested trees are extended in place."""
        head, _, rest = name.partition(".")
        if not rest or head not in self._map:
            self.insert(name, value)
        else:
            self._nested(head, name)._extend(rest, value)

    def update(self, values: DotTree[Leaf], overwrite: bool = False) -> None:
        """Inserts a copy of every top-level item of `values`."""
        for key, value in values.copy()._map.items():
            self.insert(key, value, overwrite)

    def pop(self, key: int | str) -> Any:
        """Removes and returns the item under `key`."""
        head, _, last = str(key).rpartition(".")
        parent = self.get(head) if head else self
        if not isinstance(parent, DotTree):
            raise KeyError(f"'{key}': '{head}' is not a tree")
        value = parent._child(last)
        del parent._map[last]
        return value

    def _clear(self) -> None:
        """Removes every leaf in place; nested trees stay."""
        for key, value in list(self._map.items()):
            if isinstance(value, DotTree):
                value._clear()
            else:
                del self._map[key]

    # Copies ---------------------------------------------------------------------------------

    def copy(self: Tree) -> Tree:
        """A tree of the same class: nested trees are copied, leaves shared."""
        result = type(self)()
        for key, value in self._map.items():
            result._map[key] = value.copy() if isinstance(value, DotTree) else value
        return result

    def map(self: Tree, fn: Callable[[Any], Any]) -> Tree:
        """The same keys with `fn(leaf)` for each leaf."""
        result = type(self)()
        for key, value in self._map.items():
            is_tree = isinstance(value, DotTree)
            result._map[key] = value.map(fn) if is_tree else fn(value)
        return result

    def filter_keys(self: Tree, keys: Iterable[int | str]) -> Tree:
        """A tree of only those keys (which may name whole sub-trees), in the order given."""
        names = [str(key) for key in keys]
        if repeated := duplicate_items(names):
            raise ValueError(f"The keys {repeated} are given more than once.")
        result = type(self)()
        for name in names:
            value = self.get(name)
            result._extend(name, value.copy() if isinstance(value, DotTree) else value)
        return result

    @classmethod
    def from_dict(cls: type[Tree], mapping: Mapping[Any, Any]) -> Tree:
        """A tree from flat keys. Trees among the values are kept by reference, and extended in
        place by later keys below them."""
        result = cls()
        for key, value in mapping.items():
            result._extend(_checked_key(key), value)
        return result

    @classmethod
    def pack(cls: type[Tree], keys: Iterable[int | str], values: Iterable[Any]) -> Tree:
        """`from_dict` of the pairs; what one of them has more is left out."""
        return cls.from_dict(dict(zip(keys, values, strict=False)))

    # Listing --------------------------------------------------------------------------------

    def keys(self) -> list[str]:
        return list(self._map.keys())

    def values(self) -> list[Any]:
        return list(self._map.values())

    def len(self) -> int:
        return len(self._map)

    def keys_flat(self) -> list[str]:
        return list(self.to_dict().keys())

    def values_flat(self) -> list[Leaf]:
        return list(self.to_dict().values())

    def len_flat(self) -> int:
        return len(self.to_dict())

    def to_dict(self) -> OrderedDict[str, Leaf]:
        """Flat key -> leaf, depth first in insertion order."""
        result: OrderedDict[str, Leaf] = OrderedDict()
        for key, value in self._map.items():
            if isinstance(value, DotTree):
                for flat, leaf in value.to_dict().items():
                    result[f"{key}.{flat}"] = leaf
            else:
                result[key] = value
        return result

    def unpack(self) -> Iterable[Any]:
        """Names and leaves, both sorted by flat key: `names, leaves = tree.unpack()`."""
        items = sorted(self.to_dict().items(), key=lambda item: item[0])
        return zip(*items, strict=True) if items else ([], [])

    def to_mapping(self, other: DotTree[Any]) -> dict[Leaf, Any]:
        """Leaf of this tree -> leaf of `other` for the flat keys that both have."""
        return to_mapping(self, other)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.to_dict()!r})"
