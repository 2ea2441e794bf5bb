"""Compiled programs on disk: what a second process does with what the first one left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import popxl
import popxl.session_compile
from pando.session_info import cache_file
from pando.settings import use_session_settings
from popart._internal import options as option_module
from popxl import ops

# Trains a small network and prints as JSON where its program came from and all bits of the result.
# Arguments: seed of the weights, user to become before the session is made (or -), options.
PROGRAM = """
import json, os, sys
import numpy as np
import popxl
from popxl import ops
from pando.session_info import cache_file

seed, user, options = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
random = np.random.default_rng(seed)
ir = popxl.Ir()
for name, value in options.items():
    setattr(ir._pb_ir.getSessionOptions(), name, value)
with ir.main_graph, popxl.in_sequence():
    source = popxl.h2d_stream((4, 6), popxl.float32)
    labels = popxl.h2d_stream((4,), popxl.int32)
    losses = popxl.d2h_stream((), popxl.float32)
    weight = popxl.variable(random.normal(size=(6, 3)).astype(np.float32), name="weight")
    def forward(x, y, w):
        scaled = x * popxl.constant(np.linspace(0.5, 1.5, 6).astype(np.float32))
        return ops.nll_loss(ops.softmax(scaled @ w, axis=-1), y)
    x, y = ops.host_load(source), ops.host_load(labels)
    graph = ir.create_graph(forward, x, y, weight)
    gradient = popxl.transforms.autodiff(graph, grads_required=[graph.inputs[2]])
    site = ops.call_with_info(graph, x, y, weight)
    (step,) = ops.call(
        gradient.graph, popxl.constant(1.0, popxl.float32), inputs_dict=gradient.inputs_dict(site)
    )
    ops.var_updates.accumulate_(weight, step * -0.1)
    ops.host_store(losses, site.outputs[0])
data = np.random.default_rng(7)
inputs = {
    source: data.normal(size=(4, 6)).astype(np.float32),
    labels: data.integers(0, 3, 4).astype(np.int32),
}
if user != "-":
    os.seteuid(int(user))
session = popxl.Session(ir)
with session:
    results = [session.run(inputs)[losses].tobytes().hex() for _ in range(3)]
    repeated = session._pb_session.program.disassembly()
file = cache_file(session)
print(json.dumps({
    "cached": file is not None,
    "file": str(file),
    "losses": results,
    "weight": session.get_tensor_data(weight).tobytes().hex(),
    "code": repeated,
    "report": session._pb_session.getSummaryReport(),
    "stages": [name for name, _ in session._pb_session.program.compile_report.stages],
}))
"""


class Outcome:
    """What a process printed."""

    def __init__(self, process: subprocess.CompletedProcess[str]) -> None:
        assert process.returncode == 0, process.stderr
        self.log = process.stderr
        self.found: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
        self.cached = bool(self.found["cached"])

    def computed(self) -> dict[str, Any]:
        return {name: self.found[name] for name in ("losses", "weight", "code")}


class Programs:
    """Runs the program, always from the same file, in processes of their own."""

    def __init__(self, folder: Path) -> None:
        self.script = folder / "program.py"
        self.script.write_text(PROGRAM)
        self.cache = folder / "cache"

    def run(
        self, seed: int = 0, user: str = "-", env: dict[str, str] | None = None, **options: Any
    ) -> Outcome:
        given = {"POPXL_CACHE_DIR": str(self.cache), "POPART_LOG_LEVEL": "INFO"}
        given |= {} if env is None else env
        command = [sys.executable, str(self.script), str(seed), user, json.dumps(options)]
        environment = {k: v for k, v in (os.environ | given).items() if v}
        environment["PYTHONPATH"] = os.pathsep.join(sys.path)
        return Outcome(
            subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=120, check=False
            )
        )

    def files(self) -> list[Path]:
        return sorted(self.cache.iterdir())


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path)


def test_a_second_process_starts_from_the_cache(programs: Programs) -> None:
    first, second = programs.run(), programs.run()
    plain = programs.run(env={"POPXL_CACHE_DIR": ""})
    assert (first.cached, second.cached, plain.cached) == (False, True, False)
    assert first.computed() == second.computed() == plain.computed()
    (file,) = programs.files()
    assert file.suffix == ".popef" and second.found["file"] == str(file)
    assert "Starting compilation" in first.log and "Loading serialized" not in first.log
    assert f"Loading serialized PopART executable from {file}" in second.log
    assert "Starting compilation" not in second.log
    assert second.found["stages"] == ["cache_key", "cache_load"]
    assert f"program: from cache {file}" in second.found["report"]
    assert "program: compiled" in first.found["report"]


def test_values_of_variables_are_those_of_the_new_process(programs: Programs) -> None:
    programs.run(seed=0)
    other = programs.run(seed=1)
    assert other.cached
    assert other.computed() == programs.run(seed=1, env={"POPXL_CACHE_DIR": ""}).computed()
    assert other.found["losses"] != programs.run(seed=0).found["losses"]


def test_changed_options_and_programs_miss(programs: Programs) -> None:
    programs.run()
    assert not programs.run(enableNonStableSoftmax=True).cached
    assert programs.run(enableNonStableSoftmax=True).cached
    programs.script.write_text(PROGRAM.replace("1.5, 6", "2.5, 6"))
    changed = programs.run()
    assert not changed.cached
    assert changed.computed() == programs.run().computed()
    assert len(programs.files()) == 3


def test_lines_in_errors_and_traces_are_those_of_the_program_that_runs(programs: Programs) -> None:
    programs.run()
    programs.script.write_text("\n" + PROGRAM)
    moved = programs.run()
    assert not moved.cached and programs.run().cached


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "other"])
def test_a_damaged_file_is_built_again(programs: Programs, damage: str) -> None:
    first = programs.run()
    (file,) = programs.files()
    sound = file.read_bytes()
    middle = len(sound) // 2
    file.write_bytes(
        {
            "flip": sound[:middle] + bytes([sound[middle] ^ 8]) + sound[middle + 1 :],
            "cut": sound[:-5],
            "empty": b"",
            "other": b"PK\x03\x04" + sound,
        }[damage]
    )
    rebuilt = programs.run()
    assert not rebuilt.cached and rebuilt.computed() == first.computed()
    (warning,) = [line for line in rebuilt.log.splitlines() if " W: " in line]
    assert str(file) in warning and "The program is compiled" in warning
    assert file.read_bytes() == sound
    assert programs.run().cached


def test_a_file_of_another_program_is_not_used(programs: Programs) -> None:
    programs.run()
    (file,) = programs.files()
    programs.run(enableNonStableSoftmax=True)
    (other,) = (path for path in programs.files() if path != file)
    other.write_bytes(file.read_bytes())
    mixed = programs.run(enableNonStableSoftmax=True)
    assert not mixed.cached and "Cache file hash did not match the IR hash" in mixed.log


def test_a_path_that_is_a_file(programs: Programs) -> None:
    programs.cache.write_text("mine")
    outcome = programs.run()
    assert not outcome.cached
    (warning,) = [line for line in outcome.log.splitlines() if " W: " in line]
    assert f"{programs.cache}: cannot make the folder: Not a directory" in warning
    assert programs.cache.read_text() == "mine"


def test_a_folder_that_may_only_be_read(programs: Programs, tmp_path: Path) -> None:
    # Permissions do not bind root: the process becomes somebody else.
    user = "65534" if os.geteuid() == 0 else "-"
    programs.run()
    programs.cache.chmod(0o555)
    folders = [programs.cache.parent, *programs.cache.parent.parents]
    modes = {folder: folder.stat().st_mode for folder in folders}
    modes = {folder: mode for folder, mode in modes.items() if mode & 0o005 != 0o005}
    try:
        for folder, mode in modes.items():
            folder.chmod(mode | 0o555)
        hit = programs.run(user=user)
        miss = programs.run(user=user, enableNonStableSoftmax=True)
    finally:
        for folder, mode in modes.items():
            folder.chmod(mode)
        programs.cache.chmod(0o755)
    assert hit.cached and " W: " not in hit.log
    (warning,) = [line for line in miss.log.splitlines() if " W: " in line]
    assert not miss.cached and "cannot create it: Permission denied" in warning
    assert len(programs.files()) == 1


def test_a_file_that_cannot_be_written_whole_leaves_nothing(
    programs: Programs, tmp_path: Path
) -> None:
    """As on a full disk: the system refuses after some bytes."""
    limit = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
    )
    programs.script.write_text(limit + PROGRAM)
    outcome = programs.run()
    (warning,) = [line for line in outcome.log.splitlines() if " W: " in line]
    assert not outcome.cached and "cannot write it: File too large" in warning
    assert programs.files() == []


def test_environment_variables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delenv("POPXL_CACHE_DIR", raising=False)
    monkeypatch.setenv("POPART_CACHE_DIR", str(tmp_path / "popart"))
    options = option_module.SessionOptions()
    assert options.enableEngineCaching and options.cachePath == str(tmp_path / "popart")
    monkeypatch.setenv("POPXL_CACHE_DIR", str(tmp_path / "popxl"))
    option_module._say_which_folder.cache_clear()
    for _ in range(2):
        assert option_module.SessionOptions().cachePath == str(tmp_path / "popxl")
    (line,) = capsys.readouterr().err.splitlines()
    assert "POPXL_CACHE_DIR" in line and "differ: the former is used" in line


def doubled(value: float, folder: Path | str) -> tuple[popxl.Session, popxl.DeviceToHostStream]:
    ir = popxl.Ir()
    options = ir._pb_ir.getSessionOptions()
    options.enableEngineCaching = True
    options.cachePath = folder
    with ir.main_graph:
        out = popxl.d2h_stream((), popxl.float32)
        ops.host_store(out, popxl.variable(np.float32(value)) * 2.0)
    return popxl.Session(ir), out


def test_sessions_of_one_process_share_programs(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    first, _ = doubled(3.0, folder)
    second, out = doubled(4.0, str(folder))
    assert cache_file(first) is None and cache_file(second) == next(folder.iterdir())
    with second:
        assert second.run()[out] == 8.0


def test_the_default_folder_and_an_empty_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    doubled(1.0, "")
    doubled(1.0, "session_cache")
    assert len(list(tmp_path.glob("*.popef"))) == 1
    assert len(list(tmp_path.glob("session_cache/*.popef"))) == 1


def test_a_warning_comes_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(popxl.session_compile, "_notes_given", set())
    (tmp_path / "file").write_text("")
    for _ in range(2):
        doubled(1.0, tmp_path / "file")
    assert capsys.readouterr().err.count("cannot make the folder") == 1


def test_the_limit_is_a_setting(tmp_path: Path) -> None:
    with use_session_settings(cache_limit_bytes=0):
        doubled(1.0, tmp_path)
    with use_session_settings(cache_limit_bytes=1):
        session, _ = doubled(1.0, tmp_path)
    assert cache_file(session) is not None
    assert len(list(tmp_path.iterdir())) == 1


def trained(folder: Path) -> popxl.Session:
    """A program with several gradient graphs of one graph."""
    ir = popxl.Ir()
    options = ir._pb_ir.getSessionOptions()
    options.enableEngineCaching = True
    options.cachePath = str(folder)
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(np.float32(3.0), name="x")
        graph = ir.create_graph(lambda value: ops.exp(value) * value, x)
        info = ops.call_with_info(graph, x)
        for _ in range(4):
            gradient = popxl.transforms.autodiff(graph, grads_provided=graph.outputs[:1])
            (step,) = ops.call(
                gradient.graph, popxl.constant(1.0), inputs_dict=gradient.inputs_dict(info)
            )
            ops.var_updates.accumulate_(x, step)
    return popxl.Session(ir)


def test_equal_programs_with_gradients_share_one_file(tmp_path: Path) -> None:
    sessions = [trained(tmp_path) for _ in range(3)]
    names = [[graph.id for graph in session.ir._pb.graphs] for session in sessions]
    assert names[0] == names[1] == names[2]
    assert len(set(names[0])) == 6
    assert [cache_file(session) is None for session in sessions] == [True, False, False]
    assert len(list(tmp_path.iterdir())) == 1
