"""Errors for names that do not exist, which say what there is instead."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import NoReturn

# So many are listed when none is like the one asked for.
_MOST_NAMES = 50


def missing_name(
    owner: str, name: str, known: Iterable[str], instead: Mapping[str, str] | None = None
) -> AttributeError:
    """The error for a name that `owner` does not have.

    Args:
        owner: What was asked for the name, in words.
        name: The name.
        known: The names that there are; the nearest ones are proposed, or all if there are few.
        instead: What to use for names of other interfaces, in words.

    Returns:
        An AttributeError to raise.
    """
    if name.startswith("__") and name.endswith("__"):
        # Python looks for these by itself.
        return AttributeError(f"{owner} has no '{name}'")
    hint = (instead or {}).get(name) or nearest_names(name, known)
    return AttributeError(f"{owner} has no '{name}': {hint}", name=name)


def nearest_names(name: str, known: Iterable[str]) -> str:
    """The names that are like another one.

    Args:
        name: The other name.
        known: The names that there are.

    Returns:
        A phrase with the nearest names, or with all of them if there are few.
    """
    # Only errors need it.
    import difflib

    public = sorted(other for other in set(known) if not other.startswith("_"))
    by_lower: dict[str, list[str]] = {}
    for other in public:
        by_lower.setdefault(other.lower(), []).append(other)
    near = difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)
    if near:
        names = [other for lower in near for other in by_lower[lower]]
        return f"the nearest names are {', '.join(names)}"
    if len(public) <= _MOST_NAMES:
        return f"it has {', '.join(public)}"
    return f"no name of its {len(public)} is like it"


def missing_names(
    module: str, instead: Mapping[str, str] | None = None
) -> Callable[[str], NoReturn]:
    """A module's `__getattr__`, to be hidden from type checkers: they know the names themselves.

    Args:
        module: The module's own `__name__`.
        instead: What to use for names of other interfaces, in words.

    Returns:
        A function that raises AttributeError for every name.
    """

    def raise_missing(name: str) -> NoReturn:
        namespace = vars(sys.modules[module])
        public = namespace.get("__all__") or [
            key for key, value in namespace.items() if callable(value)
        ]
        submodules = [key for key, value in namespace.items() if isinstance(value, ModuleType)]
        raise missing_name(f"module '{module}'", name, [*public, *submodules], instead)

    return raise_missing


def unknown_keywords(
    function: str, unknown: Mapping[str, object], known: Iterable[str]
) -> TypeError:
    """The error for keywords that a function does not have.

    Args:
        function: The function, in words.
        unknown: The keywords that were given and their values.
        known: The keywords that it has.

    Returns:
        A TypeError to raise, which names both.
    """
    return TypeError(
        f"{function}: unknown keywords {', '.join(sorted(unknown))}; wanted some of "
        f"{', '.join(known)}"
    )
