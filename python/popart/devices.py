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
    """A device."""

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
        return self._attached

    def attach(self) -> bool:
        self._attached = True
        return True

    def tryAttachUntilTimeout(self) -> bool:
        return self.attach()

    def detach(self) -> None:
        self._attached = False

    def __repr__(self) -> str:
        return f"DeviceInfo(type={self.type.name}, id={self.id}, numIpus={self.numIpus})"


class DeviceManager:
    """Makes devices."""

    def __init__(self) -> None:
        self._timeout = 0

    def createCpuDevice(self) -> DeviceInfo:
        return DeviceInfo(DeviceType.Cpu)

    def createIpuModelDevice(self, options: dict[str, Any]) -> DeviceInfo:
        """A model of `numIPUs` devices.

        With `tilesPerIPU` each has the memory of that many tiles of version `ipuVersion` (default
        ipu2), otherwise that of this machine. `compileIPUCode` has no effect: there is no such
        code.
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
        return [DeviceInfo(DeviceType.Ipu, numIpus)]

    def acquireAvailableDevice(self, numIpus: int = 1, **_: Any) -> DeviceInfo:
        device = DeviceInfo(DeviceType.Ipu, numIpus)
        device.attach()
        return device

    def createOfflineIpuFromDeviceInfo(self, device: DeviceInfo) -> DeviceInfo:
        return DeviceInfo(DeviceType.OfflineIpu, device.numIpus)

    def createOfflineIpuFromSystemString(self, system: str, numIpus: int) -> DeviceInfo:
        return DeviceInfo(DeviceType.OfflineIpu, numIpus)

    def setOnDemandAttachTimeout(self, seconds: int) -> None:
        """Attaching never waits; the value is kept only."""
        self._timeout = seconds
