"""What options ask of a compilation: checks, the executable cache, profiles."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

import popxl
from pando.settings import use_session_settings
from popart.devices import DeviceInfo
from poptorch import poptorch_core
from poptorch._devices import MAX_DEVICES, devices_per_replica, devices_to_reserve, uses_model
from poptorch._impl import createPoptorchError
from poptorch._logging import logger, set_repeat_limit
from poptorch._options_device import make_cache_folder
from poptorch.options import Options

_BROADCAST = (
    "PopTorch does not support broadcasting buffers. If your model is able to tolerate buffers "
    "becoming out of sync between replicas, you can disable buffer broadcasting using "
    "poptorch.Options.broadcastBuffers(False)."
)


def check_options(options: Options, training: bool) -> None:
    """Check what can be known before a module is traced, and follow what concerns messages.

    Args:
        options: The model's own options.
        training: Whether the program trains.

    Raises:
        Error: An option of the compiler is unknown, or several processes would have to train
            together.
    """
    set_repeat_limit(options.max_repeat_logs)
    poptorch_core._validateOptions(options.toDict())
    processes = options.Distributed.numProcesses
    if training and processes > 1:
        raise createPoptorchError(
            f"Training with {processes} processes is not supported: gradients are not exchanged "
            "between processes. Use replicas of one process, "
            "poptorch.Options().replicationFactor(N), or Options().Distributed.disable()"
        )


def check_program(
    devices: Collection[int], written_buffers: Collection[str], options: Options
) -> None:
    """Check what is known of a program before it is compiled.

    Args:
        devices: The virtual devices of its ops; none where there is nothing to do.
        written_buffers: The names of the buffers that a run changes.
        options: The model's own options.

    Raises:
        Error: It is empty, needs too many devices or a number that is no power of 2, or its
            replicas would have to agree on buffers although they have different inputs.
    """
    replicas = options.replication_factor
    devices_to_reserve(devices_per_replica(devices) * replicas, options)
    differ = options.input_group_size < replicas
    if options.broadcast_buffers and differ and written_buffers:
        raise createPoptorchError(f"{_BROADCAST} It writes {', '.join(sorted(written_buffers))}.")


def device_for(options: Options) -> DeviceInfo | str:
    """Choose the device of a program.

    Args:
        options: The model's own options.

    Returns:
        What popxl's sessions take.

    Raises:
        Error: There is no such device.
    """
    chosen = options.ipu_id
    if chosen is not None and chosen >= MAX_DEVICES:
        raise createPoptorchError(
            f"Failed to acquire 1 IPU(s) with ID {chosen}: there are {MAX_DEVICES} devices, from 0 "
            "on"
        )
    return "ipu_model" if uses_model(options) else "cpu"


def configure(ir: popxl.Ir, options: Options) -> None:
    """Hand on the options that a session follows.

    Args:
        ir: The program.
        options: The model's own options.
    """
    settings = ir._pb_ir.getSessionOptions()
    settings.enableFloatingPointChecks = options.Precision.floating_point_exceptions
    popart = options._Popart.options
    settings.enableNonStableSoftmax = popart.get("enableNonStableSoftmax", False)


def use_cache(ir: popxl.Ir, folder: Path | str) -> None:
    """Let the compiled program be read from a folder, or written there.

    Args:
        ir: The program.
        folder: The folder.
    """
    settings = ir._pb_ir.getSessionOptions()
    settings.enableEngineCaching = True
    settings.cachePath = str(folder)


def cache_folder_of(options: Options) -> Path | None:
    """Find the folder of compiled models, which is made.

    Args:
        options: The model's own options.

    Returns:
        The folder, or None where none are kept.

    Raises:
        AssertionError: It cannot be written to.
    """
    if options.cache_folder is None:
        if options.Distributed.numProcesses > 1:
            logger.warning(
                "No folder for compiled models is set: each of the %d processes compiles. Use "
                "Options.enableExecutableCaching",
                options.Distributed.numProcesses,
            )
        return None
    if uses_model(options):
        logger.warning("The executable cache is not used with the IPU model")
        return None
    return make_cache_folder(options.cache_folder)


def profiled(options: Options) -> AbstractContextManager[Any]:
    """Make a context in which sessions note times, where options ask for a profile.

    Args:
        options: The model's own options.

    Returns:
        The context manager.
    """
    if options.profile_folder is None:
        return nullcontext()
    return use_session_settings(profile=True)


@contextmanager
def one_process_first(
    model: torch.nn.Module, folder: Path | None, options: Options
) -> Iterator[None]:
    """Let the first of several processes compile alone, so that the others read what it wrote.

    Args:
        model: The module, whose `repr` names the lock.
        folder: The folder of compiled models, or None.
        options: The model's own options.

    Yields:
        Nothing.
    """
    processes = options.Distributed.numProcesses
    if folder is None or processes == 1:
        yield
        return
    name = hashlib.md5(repr(model).encode(), usedforsecurity=False).hexdigest()
    path = folder / f"{name}.lock"
    with open(path, "a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            # One mark for every process that is through; the last one removes the file.
            lock.write("x")
            lock.flush()
            lock.seek(0)
            if len(lock.read()) >= processes:
                path.unlink(missing_ok=True)
