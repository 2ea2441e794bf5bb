"""Runs of several processes. There is one process here, and these are its answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pando.missing_names import missing_names
from popdist.instances import (
    getInstanceIndex,
    getNumInstances,
    getNumLocalReplicas,
    getNumTotalReplicas,
    init,
    isBackendInitialized,
    isPopdistEnvSet,
)

__all__ = [
    "getInstanceIndex",
    "getNumInstances",
    "getNumLocalReplicas",
    "getNumTotalReplicas",
    "init",
    "isBackendInitialized",
    "isPopdistEnvSet",
]

_INSTEAD = {
    "configureSessionOptions": "it is popdist.popart.configureSessionOptions",
    "getDevice": "it is popdist.popart.getDevice",
}

if not TYPE_CHECKING:
    __getattr__ = missing_names(__name__, _INSTEAD)
