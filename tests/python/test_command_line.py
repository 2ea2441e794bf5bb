"""The command line tool on compiled programs, on programs of Python, and on those from pipes."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import popxl
from pando import _core
from pando.program_text import program_text
from popxl import ops

# The tool is of the same build as the core, whose files it reads.
TOOL = Path(_core.__file__).resolve().parents[1] / "bin" / "pando"

pytestmark = pytest.mark.skipif(not TOOL.exists(), reason="the command line tool is not built")


def cache(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_CACHE_DIR")}
    if folder is not None:
        environment["POPXL_CACHE_DIR"] = str(folder)
    return subprocess.run(
        [str(TOOL), "cache", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def fill(folder: Path) -> list[Path]:
    for factor in (2.0, 3.0):
        ir = popxl.Ir()
        options = ir._pb_ir.getSessionOptions()
        options.enableEngineCaching, options.cachePath = True, str(folder)
        with ir.main_graph:
            v = popxl.variable(np.ones(3, np.float32), name="v")
            ops.mul(v, popxl.constant(factor, popxl.float32))
            ops.host_store(popxl.d2h_stream((3,), popxl.float32), v * factor)
        popxl.Session(ir)
    return sorted(folder.glob("*.popef"))


def test_list_size_verify_and_clear(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    files = fill(folder)
    assert len(files) == 2
    listed = cache("list", str(folder)).stdout.splitlines()
    assert [line.split()[0] for line in listed] == [file.stem for file in files]
    assert [int(line.split()[1]) for line in listed] == [file.stat().st_size for file in files]
    total = sum(file.stat().st_size for file in files)
    # The folder that sessions would use.
    assert cache("size", folder=folder).stdout == f"{total} bytes in 2 programs\n"
    sound = cache("verify", str(folder))
    assert (sound.returncode, sound.stdout) == (0, "2 of 2 programs are sound\n")
    data = bytearray(files[0].read_bytes())
    data[100] ^= 1
    files[0].write_bytes(data)
    damaged = cache("verify", str(folder))
    assert damaged.returncode == 1
    assert damaged.stdout.startswith(f"{files[0]}: ") and "1 of 2" in damaged.stdout
    assert cache("clear", str(folder)).stdout == f"2 programs removed from {folder}\n"
    assert list(folder.iterdir()) == []
    assert cache("size", str(folder)).stdout == "0 bytes in 0 programs\n"


def test_wrong_arguments(tmp_path: Path) -> None:
    for arguments in ([], ["look"], ["list", "a", "b"]):
        done = cache(*arguments)
        assert done.returncode != 0 and "list, size, verify or clear" in done.stderr
    missing = cache("list", str(tmp_path / "none"))
    assert (
        missing.returncode == 1 and f"cannot read the folder {tmp_path / 'none'}" in missing.stderr
    )


HEADER = "pando-ir 1\nreplicas 1\ntransfers 1\ncounters 200 0 0\n"


def look_at(command: list[str], text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    file = folder / "program.txt"
    file.write_text(text)
    return subprocess.run(
        [str(TOOL), *command, str(file)], capture_output=True, text=True, timeout=60, check=False
    )


COMMANDS = [["opt", "--pass=inline_calls"], ["verify"], ["dot"], ["explain"]]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command[0]))
@pytest.mark.parametrize(
    "calls",
    [
        'Call.1() -> () calls ["g"]',
        'Call.1() -> () calls ["f"]',
        'If.1("b") {num_then_inputs = 0} -> () calls ["g", "f"]',
        'Loop.1() {trip_count = 3} -> () calls ["f"]',
    ],
)
def test_recursive_texts_are_refused(command: list[str], calls: str, tmp_path: Path) -> None:
    text = (
        f'{HEADER}graph "" {{\n  Call.3() -> () calls ["g"]\n}}\n'
        f'graph "f" {{\n  constant "b" : () bool = hex "01"\n  {calls}\n}}\n'
        'graph "g" {\n  Call.2() -> () calls ["f"]\n}\n'
    )
    done = look_at(command, text, tmp_path)
    assert done.returncode == 1 and done.stdout == ""
    # One of the calls of the circle.
    wanted = r"line 1[03], column 3: graph '([fg])' calls itself: '\1', which calls '[fg]'"
    assert re.search(wanted, done.stderr), done.stderr


def test_tensors_without_the_prefix_of_their_graph_are_drawn(tmp_path: Path) -> None:
    text = (
        f'{HEADER}graph "" {{\n  Call.1() -> () calls ["quite a long name"]\n}}\n'
        'graph "quite a long name" {\n  constant "x" : () bool = hex "01"\n'
        '  Not.2("x") -> ("y" : () bool)\n}\n'
    )
    for command in COMMANDS:
        assert look_at(command, text, tmp_path).returncode == 0
    assert 'label="x\\n() bool"' in look_at(["dot"], text, tmp_path).stdout


def test_hostile_texts_are_refused(tmp_path: Path) -> None:
    for text in (
        "(" * 100000,
        HEADER + "graph " * 100000,
        HEADER + 'graph "" {' * 100000,
        "\0" * 9,
    ):
        for command in COMMANDS:
            done = look_at(command, text, tmp_path)
            assert done.returncode == 1 and "line " in done.stderr


# One device calls a graph with temporaries of its own; the other one reads the result.
TWO_DEVICES = (
    f'{HEADER}graph "" {{\n'
    '  variable "v" : (4,) float32 = hex "0000803f000000400000404000008040"\n'
    '  stream "out" : (4,) float32\n'
    '  Call.1("v") -> ("a" : (4,) float32) calls ["f"]\n'
    '  Call.5("a") -> ("b" : (4,) float32) calls ["f"]\n'
    '  Softmax.2("b") {axis = 0} -> ("c" : (4,) float32) device 1 at "model.py":7\n'
    '  HostStore.3("c") {stream = "out"} -> () device 1\n}\n'
    'graph "f" {\n  input "f/x" : (4,) float32\n'
    '  Softmax.4("f/x") {axis = 0} -> ("f/s" : (4,) float32) name "soft"\n'
    '  Softmax.6("f/s") {axis = 0} -> ("f/y" : (4,) float32)\n'
    '  output "f/y"\n}\n'
).replace('graph ""', 'to_host "out"\ngraph ""', 1)


def test_steps_are_text_that_passes_go_on_with(tmp_path: Path) -> None:
    def explain(stage: str) -> str:
        done = look_at(["explain", f"--stage={stage}"], TWO_DEVICES, tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    lowered = explain("lower")
    assert 'storage %0 global 0 : 16 bytes "v"' in lowered and "# Softmax at model.py:7" in lowered
    passes = "coalesce_copies,reuse_dying_storages,early_loads,loads_in_place"
    passes += ",assign_devices,insert_transfers,receives_in_place,unused_kernels,lifetimes"
    passes += ",plan_frames,separate_devices"
    done = look_at(["opt", f"--pass={passes}"], lowered, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == explain("separate_devices")
    assert re.search(r"stream 0 \[run 0, .*signal 1", done.stdout)
    assert re.fullmatch(
        r"valid: \d+ functions, \d+ instructions\n", look_at(["verify"], lowered, tmp_path).stdout
    )
    # Stages before that print the graphs.
    assert explain("cse").startswith("pando-ir 1\n")


def test_steps_that_break_a_rule_are_refused(tmp_path: Path) -> None:
    lowered = look_at(["explain", "--stage=lower"], TWO_DEVICES, tmp_path).stdout
    wrong = re.sub(r"storage %0 global 0 : 16", "storage %0 global 0 : 12", lowered)
    for command in (["verify"], ["opt", "--pass=lifetimes"]):
        done = look_at(command, wrong, tmp_path)
        assert done.returncode == 1 and done.stdout == ""
        assert "%0 is no tensor of persistent memory" in done.stderr
    done = look_at(["opt", "--pass=cse"], lowered, tmp_path)
    assert done.returncode == 1 and "there is no pass over steps 'cse'" in done.stderr
    done = look_at(["explain", "--stage=nothing"], TWO_DEVICES, tmp_path)
    assert done.returncode == 1
    assert "there is no stage 'nothing'; the stages are concat_views, " in done.stderr


def tool(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(TOOL), *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_programs_come_by_pipes(tmp_path: Path) -> None:
    """Standard input under both names, and a pipe with a name of its own."""
    for name in ("-", "/dev/stdin"):
        done = tool("verify", name, text=TWO_DEVICES)
        assert (done.stdout, done.stderr) == ("valid: 2 graphs, 6 ops\n", "")
    named = tmp_path / "named"
    os.mkfifo(named)
    with subprocess.Popen([TOOL, "verify", named], stdout=subprocess.PIPE, text=True) as reader:
        named.write_text(TWO_DEVICES)
        assert reader.communicate(timeout=60)[0] == "valid: 2 graphs, 6 ops\n"
    steps = tool("explain", "--stage=plan_frames", "-", text=TWO_DEVICES).stdout
    assert steps.startswith("pando-steps 1\n")
    assert tool("verify", "-", text=steps).stdout.startswith("valid: ")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    folder = tool("verify", str(tmp_path))
    assert (folder.returncode, folder.stdout) == (1, "")
    assert f"cannot read '{tmp_path}': it is a folder" in folder.stderr
    empty = tool("verify", "-")
    assert empty.returncode == 1 and "wanted 'pando-ir'; given the end of the text" in empty.stderr


def test_inputs_of_the_main_graph_are_refused() -> None:
    graph = 'graph "" {\n  input "x" : (2,) float32\n  Neg.1("x") -> ("y" : (2,) float32)\n}\n'
    done = tool("explain", "-", text=HEADER + graph)
    assert done.returncode == 1
    assert "the main graph must have no inputs; it has 'x'" in done.stderr


def test_commands_of_the_page_on_the_architecture(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()
    commands = set(re.findall(r"`pando ([a-z]+[^`]*) FILE`", page))
    assert len(commands) >= 3
    for command in commands:
        done = look_at(command.split(), TWO_DEVICES, tmp_path)
        assert (done.returncode, done.stderr) == (0, "") and done.stdout


def layer_and_loss() -> popxl.Ir:
    ir = popxl.Ir()
    with ir.main_graph:
        x = ops.host_load(popxl.h2d_stream((4, 8), popxl.float32, name="x"))
        weights = np.linspace(-1, 1, 8 * 64, dtype=np.float32).reshape(8, 64)
        y = ops.gelu(x @ popxl.variable(weights, name="w"))
        loss = ops.mean(y)
        ops.host_store(popxl.d2h_stream(loss.shape, loss.dtype), loss)
    return ir


@pytest.mark.parametrize("most", [None, 16])
def test_programs_of_python_are_read(tmp_path: Path, most: int | None) -> None:
    file = tmp_path / "program.txt"
    file.write_text(program_text(layer_and_loss(), most))

    def tool(*arguments: str) -> str:
        command = [str(TOOL), *arguments, str(file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "test_command_line.py" in file.read_text()
    assert ("elided" in file.read_text()) == (most is not None)
    assert "Gelu" in tool("explain", "--stage=inline_calls")
    assert "MatMul" in tool("explain")
    assert tool("verify").startswith("valid: ")


def test_a_negative_size_of_data_is_refused() -> None:
    with pytest.raises(ValueError, match="max_data_bytes: wanted 0 or more; given -1"):
        program_text(popxl.Ir(), -1)
