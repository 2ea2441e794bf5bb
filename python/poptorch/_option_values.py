"""Named values of options: how they are read, set with a check of their type, frozen and shown."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from poptorch._logging import logger


def value_text(value: object) -> str:
    """Show a value as a program would write it.

    Args:
        value: The value.

    Returns:
        The text, such as `OutputMode.All`.
    """
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    return repr(value)


class OptionValues:
    """Values that are read as attributes, and set as long as they are not frozen.

    Private attributes are ordinary ones, so that subclasses can have their own.

    Args:
        defaults: The first value of every option.
        kinds: The types of options that have no default or one of another type.
    """

    def __init__(
        self, defaults: Mapping[str, Any], kinds: Mapping[str, type] | None = None
    ) -> None:
        self._values = dict(defaults)
        self._kinds = {name: type(value) for name, value in defaults.items()} | dict(kinds or {})
        self._is_frozen = False

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("_values", {})
        if name in values:
            return values[name]
        if name.startswith("_"):
            raise AttributeError(
                f"Invalid private attribute {name} of {type(self).__name__}", name=name, obj=self
            )
        raise AttributeError(f"Invalid attribute {name}.", name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            self._set(name, value)

    def __call__(self, name: str) -> Any:
        """Read a value by its name.

        Args:
            name: The name of the option.

        Returns:
            The value.

        Raises:
            AttributeError: There is no such option.
        """
        return getattr(self, name)

    def _check_not_frozen(self) -> None:
        if self._is_frozen:
            raise AttributeError("Can't modify frozen Options")

    def _set(self, name: str, value: Any) -> None:
        self._check_not_frozen()
        if name not in self._kinds:
            raise AttributeError(
                f"Invalid option {name}, valid options are {list(self._kinds)}", name=name, obj=self
            )
        kind = self._kinds[name]
        assert isinstance(value, kind), (
            f"Unexpected type {type(value)} for option {name}. Expected {kind}"
        )
        self._store(name, value)

    def _store(self, name: str, value: Any) -> None:
        """Sets a value that was checked, which may be of another type."""
        self._check_not_frozen()
        self._values[name] = value
        logger.debug("poptorch.Options set %s to value %s", name, value_text(value))

    def _append(self, name: str, value: Any) -> None:
        self._check_not_frozen()
        self._values[name].append(value)
        logger.debug("poptorch.Options added %s to %s", value, name)

    def _set_item(self, name: str, key: Any, value: Any) -> None:
        self._values[name][key] = value
        logger.debug("poptorch.Options set %s[%s] to %s", name, key, value)

    def _freeze(self) -> None:
        self._is_frozen = True

    def _unfreeze(self) -> None:
        self._is_frozen = False

    def _shown(self) -> dict[str, Any]:
        """What `repr` lists."""
        return self._values

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value_text(value)}" for name, value in self._shown().items())
        return f"{type(self).__name__}({shown})"


def check_bool(where: str, value: object) -> None:
    """Refuse what is no bool.

    Args:
        where: The setter, for the message.
        value: The argument.

    Raises:
        AssertionError: It is no bool.
    """
    assert isinstance(value, bool), f"{where}: wanted a bool; given {value!r} ({type(value)})"


def check_positive(where: str, value: object) -> None:
    """Refuse a number that is not positive; other types are refused where values are set.

    Args:
        where: The setter, for the message.
        value: The argument.

    Raises:
        ValueError: It is a number below 1.
    """
    if isinstance(value, int) and value < 1:
        raise ValueError(f"{where}: wanted a positive number; given {value}")
