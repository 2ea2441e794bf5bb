"""How models are compiled and executed."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from typing import Any, TypeVar

from poptorch._ops.scopes import Attribute
from poptorch._option_values import OptionValues, value_text
from poptorch._options_batching import BatchingOptions
from poptorch._options_device import DeviceOptions
from poptorch._options_groups import (
    _DistributedOptions,
    _JitOptions,
    _PrecisionOptions,
    _TrainingOptions,
)
from poptorch._options_memory import MemoryOptions
from poptorch._options_popart import _PopartOptions, check_popart_options
from poptorch._options_reports import ReportOptions
from poptorch._options_text import ConfigFileError, read_file, read_json
from poptorch._strategies import PipelinedExecution
from poptorch._tensor_locations import TensorLocationSettings, _TensorLocationOptions
from poptorch.enums import AutoStage, OutputMode

__all__ = ["Attribute", "ConfigFileError", "Options", "TensorLocationSettings"]

Self = TypeVar("Self", bound="Options")

_GROUPS = ("Precision", "Training", "TensorLocations", "Jit", "Distributed")


class Options(BatchingOptions, DeviceOptions, MemoryOptions, ReportOptions):
    """How models are compiled and executed.

    Setters return the options, so that calls chain. An object that was given to a model or a
    `DataLoader` is frozen: setters are then AttributeErrors, and `clone` gives one that is not.
    Values are read by their names, as `options.device_iterations`. The environment variables
    POPTORCH_CACHE_DIR and POPTORCH_DEFAULT_OPTIONS (JSON, as `from_json` takes it) are followed
    when an object is made.

    Raises:
        ValueError: An environment variable cannot be read.
    """

    def __init__(self) -> None:
        parts = (BatchingOptions, DeviceOptions, MemoryOptions, ReportOptions)
        defaults: dict[str, Any] = {"replication_factor": 1, "anchored_tensors": {}}
        for part in parts:
            defaults.update(copy.deepcopy(part.DEFAULTS))
        super().__init__(defaults, {**BatchingOptions.KINDS, **DeviceOptions.KINDS})
        self._Popart = self._popart = _PopartOptions()
        self._Precision = _PrecisionOptions(self._Popart)
        self._Training = _TrainingOptions(self._Popart)
        self._TensorLocations = _TensorLocationOptions(self._Popart)
        self._Jit = _JitOptions()
        self._Distributed = _DistributedOptions()
        self._execution_strategy = PipelinedExecution(AutoStage.SameAsIpu)
        self._follow_environment()

    def _follow_environment(self) -> None:
        if folder := os.environ.get("POPTORCH_CACHE_DIR"):
            self.enableExecutableCaching(folder)
        if text := os.environ.get("POPTORCH_DEFAULT_OPTIONS"):
            try:
                self.from_json(text)
            except ValueError as error:
                raise ValueError(f"POPTORCH_DEFAULT_OPTIONS: {error}") from error

    @property
    def Precision(self) -> _PrecisionOptions:
        """Options of half precision."""
        return self._Precision

    @property
    def Training(self) -> _TrainingOptions:
        """Options of training."""
        return self._Training

    @property
    def TensorLocations(self) -> _TensorLocationOptions:
        """Where tensors are kept; accepted without effect."""
        return self._TensorLocations

    @property
    def Jit(self) -> _JitOptions:
        """What is left of earlier releases' tracing."""
        return self._Jit

    @property
    def Distributed(self) -> _DistributedOptions:
        """Which of several processes this is."""
        return self._Distributed

    def loadFromFile(self: Self, filepath: str | os.PathLike[str]) -> Self:
        """Follow the lines of a configuration file; they stand over what was set before.

        Args:
            filepath: The file. A line is what a program would write, without `options.`:
                `Training.gradientAccumulation(4)`; it may use poptorch's enums, execution
                strategies and TensorLocationSettings, and torch's dtypes. Empty lines and those
                that begin with # are left out.

        Returns:
            The options themselves.

        Raises:
            ConfigFileError: A line is something else.
            OSError: The file cannot be read.
        """
        read_file(self, os.fspath(filepath))
        return self

    def from_json(self: Self, string: str) -> Self:
        """Follow a JSON object; it stands over what was set before.

        Args:
            string: Setters and their argument or list of arguments:
                `{"Training.gradientAccumulation": 4, "outputMode": ["OutputMode.EveryN", 2]}`.

        Returns:
            The options themselves.

        Raises:
            ValueError: It is no such object, or there is no such setter.
        """
        read_json(self, string)
        return self

    def toDict(self) -> dict[str, Any]:
        """Give all values in one dictionary, as the compiler gets them.

        Returns:
            A new dictionary: general options by their names, those of groups as `Group.name`, but
            those of Training and Distributed by their names alone; the options of `_Popart` are
            `popart`.

        Raises:
            AssertionError: The output mode is still Default.
            Error: An option of `_Popart` is unknown or has a value of another type.
        """
        assert self._values["output_mode"] != OutputMode.Default, (
            "toDict: the output mode is Default; a model's own options have it resolved"
        )
        # Groups read some of these as numbers.
        check_popart_options(self._Popart.options)
        values = {
            **self._values,
            "execution_strategy": repr(self._execution_strategy),
            **self._Training._shown(),
            **self._Distributed._shown(),
            "popart": dict(self._Popart.options),
        }
        for group in ("Precision", "TensorLocations", "Jit"):
            shown: Mapping[str, Any] = getattr(self, f"_{group}")._shown()
            values.update({f"{group}.{name}": value for name, value in shown.items()})
        return copy.deepcopy(values)

    def clone(self: Self) -> Self:
        """Make an independent copy that is not frozen.

        Returns:
            The copy, of the same class.
        """
        return copy.deepcopy(self)

    def __deepcopy__(self: Self, memo: dict[int, Any]) -> Self:
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        copied.__dict__.update(copy.deepcopy(self.__dict__, memo))
        Options._unfreeze(copied)
        return copied

    def _parts(self) -> list[OptionValues]:
        return [self._Popart, *(getattr(self, f"_{group}") for group in _GROUPS)]

    def _freeze(self) -> None:
        self._is_frozen = True
        for part in self._parts():
            part._freeze()

    def _unfreeze(self) -> None:
        self._is_frozen = False
        for part in self._parts():
            part._unfreeze()

    def __repr__(self) -> str:
        shown = {
            **self._values,
            "execution_strategy": self._execution_strategy,
            **{group: getattr(self, f"_{group}") for group in _GROUPS},
            "_Popart": self._Popart,
        }
        text = ", ".join(f"{name}={value_text(value)}" for name, value in shown.items())
        return f"{type(self).__name__}({text})"
