"""Devices, loggers, options and single-instance answers."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import popart
import popdist
import popdist.popart
import popxl
from popxl import ops


def test_devices():
    manager = popart.DeviceManager()
    cpu, model = manager.createCpuDevice(), manager.createIpuModelDevice({"numIPUs": 4})
    (hardware,) = manager.enumerateDevices(numIpus=2)
    offline = manager.createOfflineIpuFromDeviceInfo(hardware)
    named = manager.createOfflineIpuFromSystemString("ipu2", 8)
    manager.setOnDemandAttachTimeout(3)
    devices = [cpu, model, hardware, offline, named]
    assert [d.type.name for d in devices] == ["Cpu", "IpuModel", "Ipu", "OfflineIpu", "OfflineIpu"]
    assert [d.numIpus for d in devices] == [1, 4, 2, 2, 8]
    assert len({d.id for d in devices}) == len(devices)
    for device in devices:
        assert isinstance(device, popart.DeviceInfo)
        assert not device.isAttached
        assert device.attach()
        assert device.isAttached
        device.detach()
        assert not device.isAttached
        assert device.tryAttachUntilTimeout()
    acquired = manager.acquireAvailableDevice(numIpus=2, connectionType=None)
    assert acquired.isAttached
    assert acquired.numIpus == 2


@pytest.mark.parametrize("kind", ["cpu", "ipu_model", "ipu_hw", "device"])
def test_a_program_on_every_device(kind):
    ir = popxl.Ir()
    with ir.main_graph:
        stream = popxl.d2h_stream((), popxl.float32)
        ops.host_store(stream, popxl.variable(1.0) + 1)
    device = popart.DeviceManager().createIpuModelDevice({}) if kind == "device" else kind
    session = popxl.Session(ir, device)
    assert not session.is_attached
    with session:
        assert session.is_attached
        assert session.run()[stream] == 2
    assert not session.is_attached
    with pytest.raises(ValueError, match=r"ipu_hw, ipu_model, cpu"):
        popxl.Session(ir, "ipu_pod")


def test_logger_levels(capsys):
    logger = popart.getLogger("test_levels")
    assert popart.getLogger("test_levels") is logger
    methods = [logger.debug, logger.info, logger.warn, logger.error, logger.critical]
    for level, shown in (("TRACE", 5), ("DEBUG", 5), ("INFO", 4), ("WARN", 3), ("ERR", 2),
                         ("CRITICAL", 1), ("OFF", 0), ("nonsense", 0)):  # fmt: skip
        logger.setLevel(level)
        for number, write in enumerate(methods):
            write(f"message {number} 100%")
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == shown
        assert all("test_levels" in line and "100%" in line for line in lines)


@pytest.mark.parametrize("destination", ["stdout", "stderr", "file"])
def test_logger_environment(destination, tmp_path):
    """A process of its own: the environment is read when the first logger is made."""
    (tmp_path / "levels.json").write_text(json.dumps({"session": "DEBUG"}))
    environment = {
        **os.environ,
        "POPART_LOG_LEVEL": "ERR",
        "POPART_LOG_CONFIG": str(tmp_path / "levels.json"),
        "POPART_LOG_DEST": str(tmp_path / "log") if destination == "file" else destination,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    program = (
        "import popart\n"
        "popart.getLogger('session').debug('shown')\n"
        "popart.getLogger('ir').warn('hidden')\n"
        "popart.getLogger().error('also shown')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    texts = {"stdout": done.stdout, "stderr": done.stderr}
    if destination == "file":
        texts["file"] = (tmp_path / "log").read_text()
    lines = texts.pop(destination).splitlines()
    assert [line.rpartition(": ")[2] for line in lines] == ["shown", "also shown"]
    assert not any(texts.values())


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("POPART_LOG_DEST", os.mkfifo),
        ("POPART_LOG_DEST", os.mkdir),
        ("POPART_LOG_CONFIG", os.mkfifo),
        ("POPART_LOG_CONFIG", os.mkdir),
        ("POPART_LOG_CONFIG", lambda path: None),
        ("POPART_LOG_CONFIG", lambda path: path.write_text("[" * 100_000)),
        ("POPART_LOG_CONFIG", lambda path: path.write_text("no levels")),
        ("POPART_LOG_CONFIG", lambda path: path.write_text('{"session": 3}')),
    ],
)
def test_logger_environment_that_cannot_be_used(name, make, tmp_path):
    path = tmp_path / "given"
    make(path)
    environment = {**os.environ, name: str(path), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", "import popart; popart.getLogger('session')"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ValueError: {name}: ") and str(path) in last


def test_session_options():
    ir = popxl.Ir()
    options = ir._pb_ir.getSessionOptions()
    assert isinstance(options, popart.SessionOptions)
    assert ir._pb_ir.getSessionOptions() is options
    with pytest.raises(AttributeError):
        options.noSuchOption = 1
    with pytest.raises(AttributeError):
        options.noSuchOption  # noqa: B018
    options.engineOptions["target.syncReplicasIndependently"] = "true"
    options.numIOTiles = 32
    options.partialsTypeMatMuls = "half"
    again = ir._pb_ir.getSessionOptions()
    assert again.engineOptions == {"target.syncReplicasIndependently": "true"}
    assert (again.numIOTiles, again.partialsTypeMatMuls) == (32, "half")
    assert popxl.Ir()._pb_ir.getSessionOptions().engineOptions == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("virtualGraphMode", popart.VirtualGraphMode.Manual),
        ("useHostCopyOps", True),
        ("aliasZeroCopy", True),
        ("enableExplicitMainLoops", True),
        ("explicitRecomputation", True),
        ("enableInplaceAmbiguityChecking", True),
        ("enableVariablesCaching", False),
        ("decomposeGradSum", True),
        ("enableStochasticRounding", False),
        ("replicatedGraphCount", 1),
        ("enableReplicatedGraphs", False),
        ("globalReplicationFactor", 1),
        ("globalReplicaOffset", 0),
        ("cachePath", "session_cache"),
        ("dotChecks", set()),
        ("finalDotOp", 10000),
        ("constantWeights", True),
        ("throwIfLog2ScaleTensorNotInRange", True),
    ],
)
def test_options_of_an_ir(name, value):
    assert getattr(popxl.Ir()._pb_ir.getSessionOptions(), name) == value


def test_explicit_ir_switches_its_options_together():
    options = popart.SessionOptions()
    options.enableExplicitIR(False)
    names = ("useHostCopyOps", "enableExplicitMainLoops", "explicitRecomputation")
    assert [getattr(options, name) for name in names] == [False] * 3
    options.enableExplicitIR(True)
    assert [getattr(options, name) for name in names] == [True] * 3


def test_the_ambiguity_check_can_be_switched_off():
    def session(check):
        ir = popxl.Ir()
        ir._pb_ir.getSessionOptions().enableInplaceAmbiguityChecking = check
        with ir.main_graph:
            v = popxl.variable(np.ones(2, np.float32))
            ops.relu_(v)
            ops.add_(v, popxl.constant([1.0, 1.0]))
        return popxl.Session(ir)

    with pytest.raises(popart.popart_exception, match=r"Inplacing ambiguity detected\."):
        session(True)
    session(False)


def test_one_instance():
    assert popdist.isPopdistEnvSet() is False
    assert popdist.getInstanceIndex() == 0
    assert popdist.getNumInstances() == 1
    assert popdist.getNumTotalReplicas() == 1
    assert popdist.getNumLocalReplicas() == 1
    assert popdist.isBackendInitialized() is False
    popdist.init()
    ir = popxl.Ir(replication="popdist")
    assert ir.replication_factor == popdist.getNumTotalReplicas()
    assert ir.instance_replication_factor == popdist.getNumLocalReplicas()
    options = popart.SessionOptions()
    popdist.popart.configureSessionOptions(options)
    assert (options.replicatedGraphCount, options.enableDistributedReplicatedGraphs) == (1, False)
    assert isinstance(popdist.popart.getDevice(connectionType=None), popart.DeviceInfo)


def test_out_of_memory():
    """A device too small for the program: the exception tells what there was no room for."""
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(np.zeros((1000, 1000), np.float32), name="large")
        v += 1
    options = {"numIPUs": 1, "tilesPerIPU": 1, "ipuVersion": "ipu2"}
    device = popart.DeviceManager().createIpuModelDevice(options)
    with pytest.raises(popart.OutOfMemoryException) as error:
        popxl.Session(ir, device)
    assert "4000064 bytes" in error.value.getSummaryReport()
    assert isinstance(error.value.getProfilePath(), str)


def test_version():
    version, _, build = popart.versionString().partition("+")
    assert [part.isdigit() for part in version.split(".")] == [True] * 3
    assert popart.packageHash() == build


def test_exceptions():
    assert issubclass(popart.popart_internal_exception, popart.popart_exception)
    assert issubclass(popart.popart_runtime_error, popart.popart_exception)
    assert popart.popart_exception.__bases__ == (Exception,)
    assert issubclass(popart.OutOfMemoryException, popart.popart_exception)
    runtime = popart.poplar_runtime_error
    assert issubclass(popart.poplar_application_runtime_error, runtime)
    for name in ("recoverable", "unrecoverable", "unknown"):
        found = getattr(popart, f"poplar_{name}_runtime_error")
        assert issubclass(found, popart.poplar_system_runtime_error)
        assert issubclass(found, runtime)
    assert issubclass(runtime, popart.poplar_exception)
    assert popart.poplibs_exception.__bases__ == (Exception,)
    assert popxl.errors.UndefinedValue.__bases__ == (Exception,)
