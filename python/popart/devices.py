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


class DeviceInfo:
    """A device."""

    def __init__(self, device_type: DeviceType, num_ipus: int = 1) -> None:
        self.type = device_type
        self.numIpus = num_ipus
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
        return DeviceInfo(DeviceType.IpuModel, int(options.get("numIPUs", 1)))

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
