"""An insertion-ordered tree whose leaves are reached by dotted names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from popxl_addons.utils import OrderedDict, duplicate_items

Leaf = TypeVar("Leaf")
Tree = TypeVar("Tree", bound="DotTree[Any]")


def sanitise(name: str) -> str:
    """Makes a Python identifier of a name.

    Args:
        name: Any text.

    Returns:
        The text with `_` for each character that is no letter, digit or underscore, and with a `_`
        before a leading digit.
    """
    clean = re.sub(r"\W", "_", name)
    return f"_{clean}" if clean[:1].isdigit() else clean


def to_mapping(a: DotTree[Any], b: DotTree[Any]) -> dict[Any, Any]:
    """Pairs the leaves of two trees by their flat keys.

    Args:
        a: The tree whose leaves become keys.
        b: The tree whose leaves become values.

    Returns:
        Leaf of `a` -> leaf of `b` for the flat keys that both have, in no stated order.
    """
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

    A flat key is the path of a leaf joined by dots. `tree.a.b`, `tree["a.b"]` and `tree.get("a.b")`
    are the same leaf. Trees given as values are kept by reference.

    Args:
        **kwargs: The first items, in this order.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._map: dict[str, Any] = {}
        for key, value in kwargs.items():
            self.insert(key, value)

    # Reading one item -----------------------------------------------------------------------

    def get(self, key: int | str) -> Any:
        """The leaf or tree under a key.

        Args:
            key: A name, a flat key or a number. A negative number counts back from one past the
                highest number among the keys.

        Returns:
            The leaf itself or the nested tree itself.

        Raises:
            KeyError: There is nothing under `key`.
            ValueError: `key` is negative and the tree has no numeric keys.
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
        """Puts a value under a key; dotted keys make nested trees.

        Args:
            key: A number of at least 0, or names and numbers joined by dots.
            value: A leaf, or a tree, which is kept by reference.
            overwrite: Whether the first part of `key` may exist. A nested tree is then copied
                before it is extended, so that other holders of that tree do not see the change.

        Raises:
            ValueError: The key exists and `overwrite` is False, it is negative, or a part of it is
                neither a number nor a Python identifier.
            AttributeError: The key leads through a leaf.
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
        """Inserts a copy of every top-level item of another tree.

        Args:
            values: The other tree. Its trees are copied, its leaves shared.
            overwrite: Whether keys may exist; their whole items are replaced, not merged.

        Raises:
            ValueError: A key exists and `overwrite` is False.
        """
        for key, value in values.copy()._map.items():
            self.insert(key, value, overwrite)

    def pop(self, key: int | str) -> Any:
        """Removes an item.

        Args:
            key: As for `get`, but not negative.

        Returns:
            The leaf or tree that was there.

        Raises:
            KeyError: There is nothing under `key`.
        """
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
        """A copy of the tree.

        Returns:
            A tree of the same class: nested trees are copied, leaves shared.
        """
        result = type(self)()
        for key, value in self._map.items():
            result._map[key] = value.copy() if isinstance(value, DotTree) else value
        return result

    def map(self: Tree, fn: Callable[[Any], Any]) -> Tree:
        """Applies a function to every leaf.

        Args:
            fn: Takes a leaf and returns its replacement.

        Returns:
            A new tree of the same class with the same keys.
        """
        result = type(self)()
        for key, value in self._map.items():
            is_tree = isinstance(value, DotTree)
            result._map[key] = value.map(fn) if is_tree else fn(value)
        return result

    def filter_keys(self: Tree, keys: Iterable[int | str]) -> Tree:
        """A part of the tree.

        Args:
            keys: Flat keys of leaves or of whole sub-trees.

        Returns:
            A new tree with only those, in the order given.

        Raises:
            ValueError: A key is given more than once.
            KeyError: The tree has no such key.
        """
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
        """Makes a tree of flat keys.

        Args:
            mapping: Flat key or number -> leaf or tree. Trees are kept by reference, and extended
                in place by later keys below them.

        Returns:
            A tree of this class in the order of the mapping.

        Raises:
            ValueError: A key exists already or is no key (see `insert`).
            AttributeError: A key leads through a leaf.
        """
        result = cls()
        for key, value in mapping.items():
            result._extend(_checked_key(key), value)
        return result

    @classmethod
    def pack(cls: type[Tree], keys: Iterable[int | str], values: Iterable[Any]) -> Tree:
        """Makes a tree of keys and values that are in two lists.

        Args:
            keys: Flat keys.
            values: As many leaves or trees; what one of the two has more is left out.

        Returns:
            `from_dict` of the pairs.
        """
        return cls.from_dict(dict(zip(keys, values, strict=False)))

    # Listing --------------------------------------------------------------------------------

    def keys(self) -> list[str]:
        """The names of the top level.

        Returns:
            A new list, in insertion order.
        """
        return list(self._map.keys())

    def values(self) -> list[Any]:
        """The leaves and trees of the top level.

        Returns:
            A new list, in insertion order.
        """
        return list(self._map.values())

    def len(self) -> int:
        """How many items the top level has.

        Returns:
            Their number; nested trees count once.
        """
        return len(self._map)

    def keys_flat(self) -> list[str]:
        """The flat keys of all leaves.

        Returns:
            A new list, depth first in insertion order.
        """
        return list(self.to_dict().keys())

    def values_flat(self) -> list[Leaf]:
        """All leaves.

        Returns:
            A new list, depth first in insertion order.
        """
        return list(self.to_dict().values())

    def len_flat(self) -> int:
        """How many leaves the whole tree has.

        Returns:
            Their number.
        """
        return len(self.to_dict())

    def to_dict(self) -> OrderedDict[str, Leaf]:
        """All leaves by flat key.

        Returns:
            A new ordered dict, depth first in insertion order.
        """
        result: OrderedDict[str, Leaf] = OrderedDict()
        for key, value in self._map.items():
            if isinstance(value, DotTree):
                for flat, leaf in value.to_dict().items():
                    result[f"{key}.{flat}"] = leaf
            else:
                result[key] = value
        return result

    def unpack(self) -> Iterable[Any]:
        """Names and leaves, for `names, leaves = tree.unpack()`.

        Returns:
            The flat keys and the leaves as two tuples, both sorted by flat key; two empty lists for
            a tree without leaves.
        """
        items = sorted(self.to_dict().items(), key=lambda item: item[0])
        return zip(*items, strict=True) if items else ([], [])

    def to_mapping(self, other: DotTree[Any]) -> dict[Leaf, Any]:
        """Pairs the leaves of this tree with those of another one.

        Args:
            other: The tree whose leaves become values.

        Returns:
            Leaf of this tree -> leaf of `other` for the flat keys that both have, in no stated
            order.
        """
        return to_mapping(self, other)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.to_dict()!r})"
