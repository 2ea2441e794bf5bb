"""Users' own ops, compiled as users do it: run, differentiated, in place, cached, refused."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import pando
import popart
import popxl
from pando import _core
from popxl import ops

ROOT = Path(__file__).resolve().parents[3]
SNAKE = ROOT / "examples" / "custom_op" / "snake.cpp"
TOOL = Path(_core.__file__).resolve().parents[1] / "bin" / "pando"
COMPILER = os.environ.get("CXX", "c++")

pytestmark = pytest.mark.skipif(shutil.which(COMPILER) is None, reason="there is no C++ compiler")

MARKED = (ROOT / "tests" / "custom" / "marked_op.cpp").read_text()


def compile_library(source: Path, library: Path, *flags: str) -> Path:
    command = [COMPILER, "-std=c++17", "-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    command += ["-I", pando.get_include(), *flags, str(source), "-o", str(library)]
    subprocess.run(command, check=True, timeout=120)
    return library


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("libraries")


@pytest.fixture(scope="module")
def snake(folder: Path) -> pando.OpLibrary:
    # Under other names: the guide's examples load the library as it is, perhaps in this process.
    source = folder / "snake.cpp"
    source.write_text(SNAKE.read_text().replace('"Snake', '"TestSnake'))
    return pando.load_library(compile_library(source, folder / "libsnake.so"))


@pytest.fixture(scope="module")
def marked(folder: Path) -> pando.OpLibrary:
    source = folder / "marked.cpp"
    source.write_text(MARKED)
    return pando.load_library(compile_library(source, folder / "libmarked.so", "-DMARK=1"))


def numpy_snake(x: np.ndarray, a: float) -> np.ndarray:
    return x + np.sin(a * x) ** 2 / a


def call_snake(t: popxl.Tensor, a: float = 2.0, kind: str = "TestSnake") -> popxl.Tensor:
    (result,) = ops.custom(kind, [t], {"a": a})
    return result


def run(ir: popxl.Ir, stream: popxl.DeviceToHostStream) -> np.ndarray:
    with popxl.Session(ir) as session:
        result: np.ndarray = session.run()[stream]
        return result


def test_a_library_tells_what_it_has(snake: pando.OpLibrary, folder: Path) -> None:
    assert list(snake) == ["TestSnake", "TestSnakeInplace"]
    assert snake["TestSnake"].attributes == {"a": "float"}
    assert snake["TestSnake"].has_gradient
    assert not snake["TestSnake"].in_place
    assert snake["TestSnakeInplace"].in_place
    assert snake.path == (folder / "libsnake.so").resolve()
    assert repr(snake).splitlines()[1:4] == [
        "TestSnake(a: float)  # 1 input",
        "    x + sin(a x)^2 / a of a float32 input.",
        "    a: the frequency",
    ]
    assert pando.load_library(str(folder / "libsnake.so")).hash == snake.hash


@pytest.mark.usefixtures("snake")
def test_forward_is_numpys() -> None:
    x = np.random.default_rng(1).normal(size=(5, 7)).astype(np.float32)
    ir = popxl.Ir()
    with ir.main_graph:
        stream = popxl.d2h_stream((7, 5), popxl.float32)
        # The op gets a contiguous copy of the view.
        ops.host_store(stream, call_snake(popxl.variable(x, name="x").T))
    np.testing.assert_allclose(run(ir, stream), numpy_snake(x.T, 2.0), rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("snake")
def test_the_gradient_is_that_of_numeric_differences() -> None:
    x = np.random.default_rng(2).normal(size=(3, 4)).astype(np.float32)
    g = np.random.default_rng(3).normal(size=(3, 4)).astype(np.float32)
    ir = popxl.Ir()
    with ir.main_graph:
        stream = popxl.d2h_stream((3, 4), popxl.float32)
        t = popxl.variable(x, name="x")
        # Twice, and through ops of Pando.
        network = ir.create_graph(lambda t: call_snake(call_snake(t, 0.7) * 2.0, 1.5), t)
        gradients = popxl.transforms.autodiff(network)
        call = ops.call_with_info(network, t)
        inputs = gradients.inputs_dict(call)
        (slope,) = ops.call(gradients.graph, popxl.constant(g), inputs_dict=inputs)
        ops.host_store(stream, slope)

    def network_of(values: np.ndarray) -> np.ndarray:
        return numpy_snake(numpy_snake(values, 0.7) * 2.0, 1.5)

    exact = x.astype(np.float64)
    numeric = g * (network_of(exact + 1e-6) - network_of(exact - 1e-6)) / 2e-6
    np.testing.assert_allclose(run(ir, stream), numeric, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("snake")
def test_the_form_in_place_changes_its_variable() -> None:
    def update(t: popxl.TensorByRef) -> None:
        call_snake(t, 1.0, "TestSnakeInplace")

    x = np.linspace(-2, 2, 9, dtype=np.float32)
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        t = popxl.variable(x, name="x")
        ops.call(ir.create_graph(update, t), t)
        call_snake(t, 1.0, "TestSnakeInplace")
    with popxl.Session(ir) as session:
        session.run()
    wanted = numpy_snake(numpy_snake(x, 1.0), 1.0)
    np.testing.assert_allclose(session.get_tensor_data(t), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("snake")
def test_an_op_in_place_has_no_gradient() -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        t = popxl.variable(np.float32(1), name="x")
        graph = ir.create_graph(lambda t: call_snake(t, 1.0, "TestSnakeInplace"), t)
        with pytest.raises(
            popart.popart_exception, match=r"contains a modifying op .*TestSnakeInplace"
        ):
            popxl.transforms.autodiff(graph)


@pytest.mark.usefixtures("snake")
def test_every_replica_computes_its_own() -> None:
    x = np.random.default_rng(4).normal(size=(2, 6)).astype(np.float32)
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        source = popxl.h2d_stream((6,), popxl.float32)
        stream = popxl.d2h_stream((6,), popxl.float32)
        ops.host_store(stream, call_snake(ops.host_load(source)))
    with popxl.Session(ir) as session:
        result = session.run({source: x})[stream]
    np.testing.assert_allclose(result, numpy_snake(x, 2.0), rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("snake")
def test_loops_and_virtual_devices_run_it() -> None:
    x = np.random.default_rng(5).normal(size=(6,)).astype(np.float32)
    ir = popxl.Ir()
    with ir.main_graph:
        stream = popxl.d2h_stream((6,), popxl.float32)
        t = popxl.variable(x, name="x")
        (t,) = ops.repeat(ir.create_graph(call_snake, t), 3, t)
        with popxl.ipu(1):
            t = call_snake(ops.ipu_copy(t, 1), 0.5)
        ops.host_store(stream, ops.ipu_copy(t, 0, 1))
    wanted = x.astype(np.float64)
    for a in (2.0, 2.0, 2.0, 0.5):
        wanted = numpy_snake(wanted, a)
    np.testing.assert_allclose(run(ir, stream), wanted, rtol=1e-4, atol=1e-5)


def test_front_ends_make_the_ops_and_pando_none() -> None:
    assert importlib.util.find_spec("pando.ops") is None
    assert popxl.ops.custom is ops.custom


@pytest.mark.usefixtures("snake", "marked")
def test_what_an_op_refuses() -> None:
    with popxl.Ir().main_graph:
        t = popxl.variable(np.float32(1), name="x")
        i = popxl.variable(np.int32(1), name="i")
        with pytest.raises(popart.popart_exception, match=r"no library .* has an op 'Snale'"):
            ops.custom("Snale", [t])
        # Built-in ops have functions of their own.
        with pytest.raises(popart.popart_exception, match=r"no library .* has an op 'Add'"):
            ops.custom("Add", [t, t])
        with pytest.raises(ValueError, match=r"wanted the attributes \['a'\] .* no 'a'"):
            ops.custom("TestSnake", [t])
        with pytest.raises(ValueError, match="given an unknown 'b'"):
            ops.custom("TestSnake", [t], {"a": 1.0, "b": 2})
        with pytest.raises(TypeError, match=r"TestSnake: wanted a float for the attribute 'a'"):
            ops.custom("TestSnake", [t], {"a": "much"})
        with pytest.raises(TypeError, match=r"inputs\[0\]"):
            ops.custom("TestSnake", [1.0], {"a": 1.0})  # type: ignore[list-item]
        with pytest.raises(popart.popart_exception, match="wanted 1 to 1 inputs"):
            ops.custom("TestSnake", [t, t], {"a": 1.0})
        with pytest.raises(popart.popart_exception, match="wanted a float32 tensor") as error:
            ops.custom("TestSnake", [i], {"a": 1.0})
        assert Path(__file__).name in str(error.value)
        with pytest.raises(popart.popart_exception, match="other than 0"):
            ops.custom("TestSnake", [t], {"a": 0})
        # Integers are numbers, dtypes those of popxl.
        ops.custom("TestSnake", [t], {"a": 1})
        ops.custom("Marked", [t], {"kind": popxl.float16, "sizes": [1, 2], "names": []})
        with pytest.raises(TypeError, match=r"wanted a list of strs for the attribute 'names'"):
            ops.custom("Marked", [t], {"names": "abc"})
        with pytest.raises(popart.popart_exception, match=r"'names': wanted texts without zeros"):
            ops.custom("Marked", [t], {"names": ["a\0b"]})
    with popxl.Ir().main_graph, pytest.raises(ValueError, match="not in the current Graph"):
        call_snake(t)


@pytest.mark.usefixtures("marked")
@pytest.mark.parametrize("names", [[], [""], ["a", "b c", 'quoted " and \\', "zwei Zeilen\n"]])
def test_lists_of_texts_reach_the_op(names: list[str]) -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        stream = popxl.d2h_stream((), popxl.float32)
        (result,) = ops.custom("Marked", [popxl.variable(np.float32(2))], {"names": names})
        ops.host_store(stream, result)
    assert float(run(ir, stream)) == 3 + sum(100 + len(name) for name in names)


@pytest.mark.usefixtures("marked")
def test_a_compute_that_fails_names_the_line_and_the_session_goes_on() -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        source = popxl.h2d_stream((), popxl.float32)
        stream = popxl.d2h_stream((), popxl.float32)
        (result,) = ops.custom("Marked", [ops.host_load(source)])  # the line
        ops.host_store(stream, result)
    line = next(
        number
        for number, text in enumerate(Path(__file__).read_text().splitlines(), start=1)
        if text.endswith("# the line")
    )
    with popxl.Session(ir) as session:
        assert session.run({source: np.float32(2)})[stream] == 3
        with pytest.raises(popart.popart_exception) as error:
            session.run({source: np.float32(-2)})
        for part in ("Marked 'marked'", "returned 42: -2 is negative", f"{__file__}:{line}"):
            assert part in str(error.value)
        assert session.run({source: np.float32(5)})[stream] == 6


CACHING = """
import sys
import numpy as np
import pando, popxl
from popxl import ops
pando.load_library(sys.argv[1])
ir = popxl.Ir()
options = ir._pb_ir.getSessionOptions()
options.enableEngineCaching, options.cachePath = True, sys.argv[2]
with ir.main_graph:
    stream = popxl.d2h_stream((), popxl.float32)
    (result,) = ops.custom("Marked", [popxl.variable(np.float32(1), name="x")])
    ops.host_store(stream, result)
with popxl.Session(ir) as session:
    print(float(session.run()[stream]))
"""


def test_another_library_is_another_compiled_program(tmp_path: Path) -> None:
    source, program = tmp_path / "marked.cpp", tmp_path / "program.py"
    library, cache = tmp_path / "libmarked.so", tmp_path / "cache"
    source.write_text(MARKED)
    program.write_text(CACHING)

    def run_program() -> tuple[float, int]:
        command = [sys.executable, str(program), str(library), str(cache)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
        return float(done.stdout), len(list(cache.glob("*.popef")))

    compile_library(source, library, "-DMARK=10")
    assert run_program() == (11.0, 1)
    assert run_program() == (11.0, 1)
    compile_library(source, library, "-DMARK=20")
    assert run_program() == (21.0, 2)


PROGRAM = """\
pando-ir 1
replicas 1
transfers 1
counters 3 0 0
to_host "y"
graph "" {
  variable "v" : () float32 = hex "0000803f"
  stream "y" : () float32
  TestSnake.1("v") {a = 2.0} -> ("a" : () float32)
  HostStore.2("a") {stream = "y"} -> ()
}
"""


@pytest.fixture
def tool(folder: Path, snake: pando.OpLibrary) -> Callable[..., subprocess.CompletedProcess[str]]:
    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        if not TOOL.exists():
            pytest.skip("the command line tool is not built")
        command = [str(TOOL), *(str(snake.path) if one == "SNAKE" else one for one in arguments)]
        return subprocess.run(
            command, input=PROGRAM, capture_output=True, text=True, timeout=60, check=False
        )

    return call


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["ops", "--library", "SNAKE"], "\nTestSnake\n  x + sin(a x)^2 / a"),
        (["verify", "--library", "SNAKE", "-"], "valid: 1 graphs, 2 ops"),
        (["dot", "--library=SNAKE", "-"], "TestSnake"),
        (["opt", "--library", "SNAKE", "--pass=dead_code", "-"], 'TestSnake.1("v") {a = 2.0}'),
        (["opt", "--pass=dead_code", "--library", "SNAKE", "-"], 'TestSnake.1("v") {a = 2.0}'),
        (["explain", "--library", "SNAKE", "-"], "library (TestSnake of "),
        (["explain", "--stage=plan_frames", "--library", "SNAKE", "-"], 'library_op = "TestSnake"'),
    ],
)
def test_the_command_line_loads_libraries(
    tool: Callable[..., subprocess.CompletedProcess[str]],
    snake: pando.OpLibrary,
    arguments: list[str],
    printed: str,
) -> None:
    done = tool(*(one.replace("=SNAKE", f"={snake.path}") for one in arguments))
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout


def test_the_command_line_without_the_library_names_the_op(
    tool: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = tool("explain", "-")
    assert done.returncode == 1
    assert "given 'TestSnake'" in done.stderr
    assert "load the library first" in done.stderr
    assert tool("explain", "-", "--library").returncode == 2
    missing = tool("ops", "--library", "/no/such.so")
    assert missing.returncode == 1
    assert "there is no library '/no/such.so'" in missing.stderr


def test_the_example_runs(tmp_path: Path) -> None:
    library = compile_library(SNAKE, tmp_path / "libsnake.so")
    command = [sys.executable, str(SNAKE.with_suffix(".py")), str(library)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    x = 3.0
    for _ in range(20):
        x -= 0.1 * (1 + np.sin(4 * x))
    assert float(done.stdout.split("x became")[1]) == pytest.approx(x, abs=1e-4)


def test_hooks_see_ops_of_libraries(folder: Path) -> None:
    ir = popxl.Ir()
    seen = []
    with ir.main_graph as graph:
        t = popxl.variable(np.float32(1), name="x")
        ops.add(t, t)  # the kinds are known by now
        source = folder / "late.cpp"
        source.write_text(MARKED.replace('"Marked"', '"LateMarked"'))
        pando.load_library(compile_library(source, folder / "liblate.so", "-DMARK=1"))
        handle = graph.register_op_created_hook(lambda op: seen.append(op.hasSideEffect()))
        ops.custom("LateMarked", [t])
        graph.remove_op_created_hook(handle)
    assert seen == [False]
