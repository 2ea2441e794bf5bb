"""Devices. Programs run on this machine, so a device only tracks whether it is attached."""

from __future__ import annotations

import enum
import itertools
from typing import TYPE_CHECKING, Any, NoReturn

from pando.missing_names import missing_name, unknown_keywords

_ids = itertools.count()


class DeviceType(enum.Enum):
    """Kinds of devices."""

    IpuModel = 0
    Cpu = 1
    Ipu = 2
    OfflineIpu = 3
    Sim = 4


class DeviceConnectionType(enum.Enum):
    """When a device is attached."""

    Always = 0
    OnDemand = 1
    Never = 2


class SyncPattern(enum.Enum):
    """How devices synchronise."""

    Full = 0
    SinglePipeline = 1
    ReplicaAndLadder = 2


class DeviceSelectionCriterion(enum.Enum):
    """Which device of several to take."""

    First = 0
    Random = 1


# Bytes of memory of one tile, by the version of the device.
_TILE_BYTES = {"ipu1": 256 * 1024, "ipu2": 624 * 1024, "ipu21": 624 * 1024}


class DeviceInfo:
    """A device, or several that are taken together.

    Args:
        device_type: The kind of the device.
        num_ipus: The number of virtual devices.
        memory_limit_bytes: The bytes of memory of one virtual device; programs of which one needs
            more are refused. 0: no limit.
    """

    def __init__(
        self, device_type: DeviceType, num_ipus: int = 1, memory_limit_bytes: int = 0
    ) -> None:
        self.type = device_type
        self.numIpus = num_ipus
        # Programs that need more memory of one IPU are refused; 0: no limit.
        self.memory_limit_bytes = memory_limit_bytes
        self.id = next(_ids)
        self._attached = False

    @property
    def isAttached(self) -> bool:
        """Whether the device is attached."""
        return self._attached

    def attach(self) -> bool:
        """Attach the device.

        Returns:
            True: it always can be.
        """
        self._attached = True
        return True

    def tryAttachUntilTimeout(self) -> bool:
        """Attach the device, without ever waiting.

        Returns:
            True: it always can be.
        """
        return self.attach()

    def detach(self) -> None:
        """Detach the device."""
        self._attached = False

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise missing_name("a DeviceInfo", name, dir(self))

    def __repr__(self) -> str:
        return f"DeviceInfo(type={self.type.name}, id={self.id}, numIpus={self.numIpus})"


_ENUMERATE = ("numIpus", "pattern", "deviceType", "connectionType", "tilesPerIPU")
_ACQUIRE = ("numIpus", "tilesPerIpu", "pattern", "connectionType", "selectionCriterion")
_INSTEAD = {
    "acquireDeviceById": "there is one device; acquireAvailableDevice gives it",
    "tryAcquireAvailableDevice": "acquireAvailableDevice never waits",
    "createHwDevice": "enumerateDevices or acquireAvailableDevice give the device",
    "createSimDevice": "createIpuModelDevice makes a model of a device",
}


def _check_kind(name: str, value: object, kind: type[enum.Enum]) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name}: wanted one of {', '.join(map(str, kind))}; given {value!r}")


def _device(kind: DeviceType, num_ipus: int, tiles: int) -> DeviceInfo:
    if not isinstance(num_ipus, int) or not isinstance(tiles, int):
        raise TypeError(f"wanted numbers of devices and of tiles; given {num_ipus!r} and {tiles!r}")
    if num_ipus < 1 or tiles < 0:
        raise ValueError(
            f"wanted at least 1 device and at least 0 tiles; given {num_ipus} and {tiles}"
        )
    return DeviceInfo(kind, num_ipus, tiles * _TILE_BYTES["ipu2"])


class DeviceManager:
    """Makes devices."""

    def __init__(self) -> None:
        self._timeout = 0

    def createCpuDevice(self) -> DeviceInfo:
        """Make a device of this machine's processor.

        Returns:
            A new device.
        """
        return DeviceInfo(DeviceType.Cpu)

    def createIpuModelDevice(self, options: dict[str, Any]) -> DeviceInfo:
        """Make a model of several devices.

        Args:
            options: `numIPUs`, default 1; `tilesPerIPU`, with which each has the memory of that
                many tiles instead of this machine's; `ipuVersion`, the version of the tiles: ipu1,
                ipu2 (default) or ipu21; `compileIPUCode`, which has no effect because there is no
                such code.

        Returns:
            A new device.

        Raises:
            ValueError: An option or the version is unknown.
        """
        known = {"numIPUs", "tilesPerIPU", "ipuVersion", "compileIPUCode"}
        if unknown := set(options) - known:
            raise ValueError(
                f"createIpuModelDevice: unknown options {sorted(unknown)}; wanted some of "
                f"{sorted(known)}"
            )
        version = options.get("ipuVersion", "ipu2")
        if version not in _TILE_BYTES:
            raise ValueError(
                f"createIpuModelDevice: wanted an ipuVersion of {', '.join(_TILE_BYTES)}; given "
                f"{version!r}"
            )
        num_ipus = int(options.get("numIPUs", 1))
        tiles = int(options.get("tilesPerIPU", 0))
        return DeviceInfo(DeviceType.IpuModel, num_ipus, tiles * _TILE_BYTES[version])

    def enumerateDevices(
        self,
        numIpus: int = 1,
        *,
        pattern: SyncPattern = SyncPattern.Full,
        deviceType: DeviceType = DeviceType.Ipu,
        connectionType: DeviceConnectionType | None = None,
        tilesPerIPU: int = 0,
        **unknown: Any,
    ) -> list[DeviceInfo]:
        """Give the one device that this machine is, not attached.

        Args:
            numIpus: How many virtual devices it has.
            pattern: Has no effect; there is nothing to synchronise.
            deviceType: The kind of device.
            connectionType: Has no effect; a session attaches the device.
            tilesPerIPU: If not 0, each virtual device has the memory of so many tiles.
            **unknown: Other keywords, which are refused.

        Returns:
            A list of one device.

        Raises:
            TypeError: Another keyword, or a value of another type.
            ValueError: Fewer than 1 device or 0 tiles.
        """
        if unknown:
            raise unknown_keywords("enumerateDevices", unknown, _ENUMERATE)
        _check_kind("pattern", pattern, SyncPattern)
        _check_kind("deviceType", deviceType, DeviceType)
        if connectionType is not None:
            _check_kind("connectionType", connectionType, DeviceConnectionType)
        return [_device(deviceType, numIpus, tilesPerIPU)]

    def acquireAvailableDevice(
        self,
        numIpus: int = 1,
        tilesPerIpu: int = 0,
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType | None = None,
        selectionCriterion: DeviceSelectionCriterion = DeviceSelectionCriterion.First,
        **unknown: Any,
    ) -> DeviceInfo:
        """Take the device that this machine is, attached unless it is to be on demand.

        Args:
            numIpus: How many virtual devices it has.
            tilesPerIpu: If not 0, each virtual device has the memory of so many tiles.
            pattern: Has no effect; there is nothing to synchronise.
            connectionType: With OnDemand a session attaches the device, else it is attached here.
            selectionCriterion: Has no effect; there is one device.
            **unknown: Other keywords, which are refused.

        Returns:
            The device.

        Raises:
            TypeError: Another keyword, or a value of another type.
            ValueError: Fewer than 1 device or 0 tiles, or a connection that is never made.
        """
        if unknown:
            raise unknown_keywords("acquireAvailableDevice", unknown, _ACQUIRE)
        _check_kind("pattern", pattern, SyncPattern)
        _check_kind("selectionCriterion", selectionCriterion, DeviceSelectionCriterion)
        if connectionType is not None:
            _check_kind("connectionType", connectionType, DeviceConnectionType)
        if connectionType is DeviceConnectionType.Never:
            raise ValueError(
                "acquireAvailableDevice: a device whose connection is never made cannot be "
                "acquired; use createOfflineIpuFromDeviceInfo"
            )
        device = _device(DeviceType.Ipu, numIpus, tilesPerIpu)
        if connectionType is not DeviceConnectionType.OnDemand:
            device.attach()
        return device

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise missing_name("a DeviceManager", name, dir(self), _INSTEAD)

    def createOfflineIpuFromDeviceInfo(self, device: DeviceInfo) -> DeviceInfo:
        """Make a device to compile for, without attaching one.

        Args:
            device: The device to be like.

        Returns:
            A new device.
        """
        return DeviceInfo(DeviceType.OfflineIpu, device.numIpus)

    def createOfflineIpuFromSystemString(self, system: str, numIpus: int) -> DeviceInfo:
        """Make a device to compile for, without attaching one.

        Args:
            system: The name of the system, which makes no difference.
            numIpus: The number of virtual devices.

        Returns:
            A new device.
        """
        return DeviceInfo(DeviceType.OfflineIpu, numIpus)

    def setOnDemandAttachTimeout(self, seconds: int) -> None:
        """Keep how long to wait for a device; attaching never waits.

        Args:
            seconds: The time.
        """
        self._timeout = seconds
