"""popdist for popart programs."""

from __future__ import annotations

import importlib
from typing import Any

import popdist


def configureSessionOptions(options: Any) -> None:
    """The replication of this run: of one instance."""
    local = popdist.getNumLocalReplicas()
    options.replicatedGraphCount = local
    options.enableReplicatedGraphs = local > 1


def getDevice(connectionType: Any = None) -> Any:
    """A device of this machine."""
    return importlib.import_module("popart").DeviceManager().enumerateDevices()[0]
