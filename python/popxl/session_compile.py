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
    """Warn, once per process and key.

    Args:
        key: What the warning is about.
        message: The text of the warning.
    """
    if key not in _notes_given:
        _notes_given.add(key)
        getLogger("session").warn(message)


def note_repeated(ir: Ir, repeated: _core.RepeatedStream) -> None:
    """Warn, once per stream, that a run went over a stream's array again.

    Args:
        ir: The program.
        repeated: The stream, its transfers in the run and those that its array is for.
    """
    if repeated.host_to_device:
        use, effect = "loads", "reads the same data again"
    else:
        use, effect = "stores to", "overwrites what it stored first"
    note_once(
        f"stream {ir.id} {repeated.stream}",
        f"a run {use} the stream '{repeated.stream}' {repeated.transfers} times, and its array "
        f"is for {repeated.count}: it {effect}. If that is not meant, set "
        f"ir.num_host_transfers to {repeated.transfers}",
    )


def resolve_device(device_desc: str | DeviceInfo) -> DeviceInfo:
    """Find the device that a description names.

    Args:
        device_desc: `cpu`, `ipu_model`, `ipu_hw` or a device.

    Returns:
        The device.

    Raises:
        ValueError: The name is unknown.
    """
    if isinstance(device_desc, DeviceInfo):
        return device_desc
    if device_desc not in _DEVICE_TYPES:
        raise ValueError(
            f"device_desc: wanted one of {', '.join(_DEVICE_TYPES)}; given {device_desc!r}"
        )
    if device_desc == "ipu_hw":
        note_once("ipu_hw", "device 'ipu_hw' resolves to the CPU backend of this machine")
    return DeviceInfo(_DEVICE_TYPES[device_desc])


def ipus_per_replica(ir: Ir) -> int:
    """Count the virtual devices that a replica of a program needs.

    Args:
        ir: The program.

    Returns:
        The highest number of a device that an op is on, or moves a tensor to, plus 1.
    """
    ops = [op for graph in ir._pb.graphs for op in graph.ops]
    devices = {op.context.device for op in ops if op.context.device is not None}
    devices |= {int(op.attributes["destination"]) for op in ops if op.kind == "DeviceCopy"}
    reduced = [op.attributes["devices"] for op in ops if op.kind == "AllReduce"]
    devices |= {int(device) for ipus in reduced for device in ipus}
    return int(max(devices, default=0)) + 1


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
    """Compile the program of an Ir under its options and the session settings.

    Args:
        ir: The Ir.
        device: The device, whose memory is a limit.

    Returns:
        The compiled program.

    Raises:
        NotImplementedError: An option cannot be followed, or there are several instances.
        popart_exception: The program cannot be compiled.
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
    session = _core.Session(
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
        cache_suffix=".popef",
        cache_limit_bytes=settings.cache_limit_bytes,
        log=_log,
        remote=settings.remote(),
        machine_code=settings.machine_code,
        flush_denormals=settings.flush_denormals,
        check_finite=bool(ir._options.enableFloatingPointChecks),
    )
    if cache_folder and (file := session.compile_report.cache_file):
        _log(False, f"Loading serialized PopART executable from {file}")
    return session
