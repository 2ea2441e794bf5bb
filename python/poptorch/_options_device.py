"""Options of devices and of the compiler: selection, connection, caching, hints."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from poptorch._option_values import OptionValues, check_bool
from poptorch._options_popart import _PopartOptions
from poptorch.enums import ConnectionType, SyncPattern

Devices = TypeVar("Devices", bound="DeviceOptions")

_DEVICE_NAME = re.compile(r"IPU(\d+)")
_DEVICE_VERSIONS = (1, 2, 21)


class DeviceOptions(OptionValues):
    """Options of devices and of the compiler."""

    DEFAULTS: ClassVar[dict[str, Any]] = {
        "auto_round_num_ipus": False,
        "use_ipu_model": None,
        "ipu_id": None,
        "connection_type": ConnectionType.Always,
        "offline_ipu_version": None,
        "sync_pattern": SyncPattern.Full,
        "available_memory_proportion": {},
    }
    KINDS: ClassVar[dict[str, type]] = {
        "use_ipu_model": bool,
        "ipu_id": int,
        "offline_ipu_version": int,
    }

    _Popart: _PopartOptions

    def autoRoundNumIPUs(self: Devices, auto_round_num_ipus: bool = True) -> Devices:
        """Choose whether devices are taken up to the next power of 2.

        Args:
            auto_round_num_ipus: Whether they are; if not, another number is an error.

        Returns:
            The options themselves.

        Raises:
            AssertionError: It is no bool.
        """
        self._set("auto_round_num_ipus", auto_round_num_ipus)
        return self

    def useIpuModel(self: Devices, use_model: bool) -> Devices:
        """Choose a model of the device, against POPTORCH_IPU_MODEL and POPTORCH_SMALL_IPU_MODEL.

        Both run on this machine's processor; the model takes any number of devices.

        Args:
            use_model: Whether the model is used.

        Returns:
            The options themselves.

        Raises:
            AssertionError: It is no bool.
        """
        self._set("use_ipu_model", use_model)
        return self

    def useIpuId(self: Devices, ipu_id: int) -> Devices:
        """Choose a device by its number; all are this machine.

        Args:
            ipu_id: The number.

        Returns:
            The options themselves.

        Raises:
            AssertionError: It is no int.
            ValueError: It is negative.
        """
        if isinstance(ipu_id, int) and ipu_id < 0:
            raise ValueError(f"useIpuId: wanted the number of a device; given {ipu_id}")
        self._set("ipu_id", ipu_id)
        return self

    def useOfflineIpuTarget(self: Devices, ipu_version: int = 2) -> Devices:
        """Compile without a device; the model cannot run.

        Args:
            ipu_version: 1, 2 or 21.

        Returns:
            The options themselves.

        Raises:
            AssertionError: It is no int.
            ValueError: There is no such version.
        """
        if isinstance(ipu_version, int) and ipu_version not in _DEVICE_VERSIONS:
            raise ValueError(
                f"useOfflineIpuTarget: wanted one of {_DEVICE_VERSIONS}; given {ipu_version}"
            )
        self._set("offline_ipu_version", ipu_version)
        return self.connectionType(ConnectionType.Never)

    def connectionType(self: Devices, connection_type: ConnectionType) -> Devices:
        """Choose when the device is attached.

        Args:
            connection_type: Always: when the model is compiled; OnDemand: when it first runs;
                Never: it is compiled only.

        Returns:
            The options themselves.

        Raises:
            AssertionError: It is no ConnectionType.
        """
        self._set("connection_type", connection_type)
        return self

    def syncPattern(self: Devices, sync_pattern: SyncPattern) -> Devices:
        """Choose how devices synchronise; it changes nothing here.

        Args:
            sync_pattern: The pattern.

        Returns:
            The options themselves.

        Raises:
            AssertionError: It is no SyncPattern.
        """
        self._set("sync_pattern", sync_pattern)
        return self

    def setAvailableMemoryProportion(
        self: Devices, available_memory_proportion: dict[str, float]
    ) -> Devices:
        """Set how much of a device's memory ops may use; it changes nothing here.

        Args:
            available_memory_proportion: A proportion for each device, which is named `IPU0` and
                so on.

        Returns:
            The options themselves.

        Raises:
            AssertionError: It is no dictionary of numbers by such names.
        """
        self._check_not_frozen()
        given = available_memory_proportion
        assert isinstance(given, dict), (
            f"setAvailableMemoryProportion: wanted a dict of str to float; given {given!r}"
        )
        proportions = {}
        for name, proportion in given.items():
            found = _DEVICE_NAME.fullmatch(name) if isinstance(name, str) else None
            assert found, (
                "setAvailableMemoryProportion: wanted names of devices such as 'IPU0'; given "
                f"{name!r}"
            )
            assert isinstance(proportion, (int, float)), (
                f"setAvailableMemoryProportion: wanted a number for {name}; given {proportion!r}"
            )
            proportions[int(found[1])] = proportion
        self._set("available_memory_proportion", proportions)
        return self

    def enableExecutableCaching(self: Devices, path: str | os.PathLike[str] | None) -> Devices:
        """Keep compiled models in a folder, so that they need not be compiled again.

        Args:
            path: The folder, which is made when a model is compiled; None: no models are kept.

        Returns:
            The options themselves.

        Raises:
            AssertionError: It is neither a path nor None.
        """
        assert path is None or isinstance(path, (str, os.PathLike)), (
            f"enableExecutableCaching: wanted a path or None; given {path!r}"
        )
        self._Popart.set("enableEngineCaching", path is not None)
        if path is not None:
            self._Popart.set("cachePath", os.fspath(path))
        return self

    @property
    def cache_folder(self) -> str | None:
        """The folder of compiled models, or None."""
        popart = self._Popart.options
        return str(popart["cachePath"]) if popart.get("enableEngineCaching") else None

    def enableStableNorm(self: Devices, enabled: bool) -> Devices:
        """Choose how norms compute variances: they always do it from centred values here.

        Args:
            enabled: Of no effect.

        Returns:
            The options themselves.

        Raises:
            AssertionError: It is no bool.
        """
        check_bool("enableStableNorm", enabled)
        self._Popart.set("enableStableNorm", enabled)
        return self


def make_cache_folder(folder: str) -> Path:
    """Make the folder of compiled models, when one is compiled.

    Args:
        folder: The folder.

    Returns:
        It.

    Raises:
        AssertionError: It cannot be made or written to.
    """
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        is_writable = os.access(path, os.W_OK)
    except OSError:
        is_writable = False
    assert is_writable, f"The folder of the executable cache, {folder}, is not writable"
    return path
