"""Names and keywords that do not exist: errors that say what there is instead."""

import importlib
import subprocess
import sys

import pytest

import popart
import popart._internal.ir
import popdist
import popxl
import popxl_addons
from popxl import ops

MODULES = [popart, popdist, popxl, popxl_addons, ops]
OTHERS = [popart._internal.ir, popxl.transforms]


@pytest.mark.parametrize("module", MODULES + OTHERS, ids=lambda module: module.__name__)
def test_a_module_names_the_nearest_names(module):
    public = getattr(module, "__all__", ["getInstanceIndex"])
    known = [name for name in public if len(name) > 4 and not name.startswith("_")]
    for name in known:
        with pytest.raises(AttributeError) as error:
            getattr(module, f"{name.swapcase()}x")
        message = str(error.value)
        assert message.startswith(f"module '{module.__name__}' has no '{name.swapcase()}x'")
        assert name in message
        assert error.value.name == f"{name.swapcase()}x"
    assert not hasattr(module, "zzzz_qqqq")
    assert getattr(module, "zzzz_qqqq", 3) == 3


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_what_is_named_instead_is_no_name_of_the_module_and_exists(module):
    for name, hint in module._INSTEAD.items():
        assert not hasattr(module, name)
        with pytest.raises(AttributeError, match=f"has no '{name}'") as error:
            getattr(module, name)
        assert str(error.value).endswith(hint)
        if hint.startswith("it is "):
            path = hint.removeprefix("it is ").split(";")[0]
            owner, _, last = path.rpartition(".")
            owner = f"popxl.{owner}" if owner.startswith("ops") else owner
            assert hasattr(importlib.import_module(owner), last)


def test_an_import_of_a_name_that_does_not_exist():
    program = "from popart import Builder"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "ImportError: cannot import name 'Builder' from 'popart'" in result.stderr


def test_objects_of_the_device_layer():
    manager = popart.DeviceManager()
    with pytest.raises(AttributeError, match="the nearest names are enumerateDevices"):
        manager.enumerateDevice()
    with pytest.raises(AttributeError, match="acquireAvailableDevice gives it"):
        manager.acquireDeviceById(3)
    with pytest.raises(AttributeError, match=r"a DeviceInfo has no 'numIPUs'.*numIpus"):
        _ = manager.createCpuDevice().numIPUs
    options = popart.SessionOptions()
    with pytest.raises(AttributeError, match=r"'numIoTiles'.*numIOTiles"):
        options.numIoTiles = 3
    with pytest.raises(AttributeError, match=r"'numIoTiles'.*numIOTiles"):
        _ = options.numIoTiles


def test_classes_of_ops():
    with pytest.raises(AttributeError, match=r"ir\.op has no 'MatMullOp': .*MatMulOp"):
        _ = popart._internal.ir.op.MatMullOp
    with pytest.raises(AttributeError, match=r"ir\.op has no 'matMulOp': .*MatMulOp"):
        _ = popart._internal.ir.op.matMulOp


def test_keywords_of_the_device_manager():
    manager = popart.DeviceManager()
    for function, known in (
        (manager.acquireAvailableDevice, "selectionCriterion"),
        (manager.enumerateDevices, "deviceType"),
    ):
        with pytest.raises(TypeError, match=f"unknown keywords foo; wanted some of .*{known}"):
            function(numIpus=64, foo=1)
        with pytest.raises(TypeError, match=r"pattern: wanted one of .*Full.*given 'Full'"):
            function(pattern="Full")
        with pytest.raises(TypeError, match=r"connectionType: wanted one of .*OnDemand"):
            function(connectionType=1)
        with pytest.raises(TypeError, match="numbers of devices"):
            function("two")
        with pytest.raises(ValueError, match=r"at least 1 device.*given 0"):
            function(0)
    first = popart.DeviceSelectionCriterion.First
    kind = popart.DeviceConnectionType
    pattern = popart.SyncPattern.SinglePipeline
    device = manager.acquireAvailableDevice(4, 2, pattern, kind.OnDemand, first)
    assert (device.numIpus, device.isAttached, device.memory_limit_bytes) == (4, False, 2 * 638976)
    assert manager.acquireAvailableDevice(connectionType=kind.Always).isAttached
    with pytest.raises(ValueError, match="cannot be acquired"):
        manager.acquireAvailableDevice(connectionType=kind.Never)
    (model,) = manager.enumerateDevices(
        numIpus=2,
        deviceType=popart.DeviceType.IpuModel,
        pattern=pattern,
        connectionType=kind.Always,
        tilesPerIPU=3,
    )
    assert (model.type.name, model.numIpus, model.isAttached) == ("IpuModel", 2, False)
    assert model.memory_limit_bytes == 3 * 638976
