"""Devices. Programs run on this machine, so a device only tracks whether it is attached."""

from __future__ import annotations

import enum
import itertools
from typing import Any

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
        # Of one IPU. Programs of which one needs more are refused; 0: no limit.
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

    def __repr__(self) -> str:
        return f"DeviceInfo(type={self.type.name}, id={self.id}, numIpus={self.numIpus})"


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

    def enumerateDevices(self, numIpus: int = 1, **_: Any) -> list[DeviceInfo]:
        """List the devices that a program may take. Other arguments make no difference.

        Args:
            numIpus: The number of virtual devices wanted.

        Returns:
            One new device.
        """
        return [DeviceInfo(DeviceType.Ipu, numIpus)]

    def acquireAvailableDevice(self, numIpus: int = 1, **_: Any) -> DeviceInfo:
        """Take a device. Other arguments make no difference.

        Args:
            numIpus: The number of virtual devices wanted.

        Returns:
            A new device, attached.
        """
        device = DeviceInfo(DeviceType.Ipu, numIpus)
        device.attach()
        return device

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
