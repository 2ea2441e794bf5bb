"""popdist for popart programs."""

from __future__ import annotations

from typing import Any

from popart.devices import DeviceManager
from popdist.instances import getNumLocalReplicas


def configureSessionOptions(options: Any) -> None:
    """Set the replication of this run: that of one instance.

    Args:
        options: The session options, which are changed.
    """
    local = getNumLocalReplicas()
    options.replicatedGraphCount = local
    options.enableReplicatedGraphs = local > 1


def getDevice(connectionType: Any = None) -> Any:
    """Give a device of this machine.

    Args:
        connectionType: When it would be attached, which makes no difference.

    Returns:
        A new device, not attached.
    """
    return DeviceManager().enumerateDevices()[0]
