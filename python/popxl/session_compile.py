"""From an Ir to a compiled program: devices, options, and what the user is told of them."""

from __future__ import annotations

from pando import _core
from pando.settings import session_settings
from popart.devices import DeviceInfo, DeviceType
from popart.logging_ import getLogger
from popxl.ir import Ir

_DEVICE_TYPES = {
    "ipu_hw": DeviceType.Ipu,
    "ipu_model": DeviceType.IpuModel,
    "cpu": DeviceType.Cpu,
}
_notes_given: set[str] = set()


def note_once(key: str, message: str) -> None:
    """Warns, once per process and key."""
    if key not in _notes_given:
        _notes_given.add(key)
        getLogger("session").warn(message)


def resolve_device(device_desc: str | DeviceInfo) -> DeviceInfo:
    """The device of a name; raises ValueError for an unknown one."""
    if isinstance(device_desc, DeviceInfo):
        return device_desc
    if device_desc not in _DEVICE_TYPES:
        raise ValueError(
            f"device_desc: wanted one of {', '.join(_DEVICE_TYPES)}; given {device_desc!r}"
        )
    if device_desc == "ipu_hw":
        note_once("ipu_hw", "device 'ipu_hw' resolves to the CPU backend of this machine")
    return DeviceInfo(_DEVICE_TYPES[device_desc])


def _check_options(ir: Ir) -> None:
    """Refuses options that cannot be followed and names those that have no effect."""
    options = ir._options
    for name, why in options.check().items():
        text = f"session option {name} = {getattr(options, name)!r} has no effect: {why}"
        note_once(f"option {name}", text)


def _log(is_warning: bool, message: str) -> None:
    """What the core tells while it makes a session."""
    if is_warning:
        note_once(message, message)
    else:
        getLogger("session").info(message)


def compile_ir(ir: Ir, device: DeviceInfo) -> _core.Session:
    """The program of an Ir, compiled under its options and the session settings.

    Raises NotImplementedError for options that cannot be followed and for several instances.
    """
    _check_options(ir)
    ir._settle()
    settings = session_settings()
    if ir.instance_replication_factor != ir.replication_factor:
        raise NotImplementedError(
            f"{ir!r} has {ir.replication_factor} replicas in several instances; this one runs "
            f"{ir.instance_replication_factor}: only one instance is supported"
        )
    cache_folder = (str(ir._options.cachePath) or ".") if ir._options.enableEngineCaching else ""
    limits = [b for b in (settings.device_memory_limit_bytes, device.memory_limit_bytes) if b > 0]
    return _core.Session(
        ir._pb,
        memory_limit_bytes=settings.memory_limit_bytes,
        device_memory_limit_bytes=min(limits, default=0),
        num_threads=settings.num_threads,
        check_inplace_ambiguity=bool(ir._options.enableInplaceAmbiguityChecking),
        profile=settings.profile,
        check_log2_scales=ir._options.throwIfLog2ScaleTensorNotInRange,
        stable_softmax=not ir._options.enableNonStableSoftmax,
        collective_timeout_seconds=settings.collective_timeout_seconds,
        cache_folder=cache_folder,
        cache_limit_bytes=settings.cache_limit_bytes,
        log=_log,
        remote=settings.remote(),
        machine_code=settings.machine_code,
    )
