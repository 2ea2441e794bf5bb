"""The benchmark's own machinery: rows, JSON, tables, workers. Asserts no times."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

# E402: they are found on the path that has just been extended.
from benchmarks import data  # noqa: E402
from benchmarks.cases import FRAMEWORKS, Case, all_cases  # noqa: E402
from benchmarks.frameworks import torch_compile  # noqa: E402
from benchmarks.memory import Contest, Round  # noqa: E402
from benchmarks.models.families import model_cases  # noqa: E402
from benchmarks.runner import Row, Runner, Sample, Settings, WorkerProcess  # noqa: E402
from benchmarks.table import compare, render, render_against, render_models, render_ops  # noqa: E402

MODULES = {
    "pando": "popxl",
    "torch_eager": "torch",
    "jax": "jax",
    "mlx": "mlx",
    "library_sum": "torch",
    "lower_bound": "torch",
}
TINY = "mlp/infer/b8"
CASE = Case("a", "light", "us", "run")


def run(
    *arguments: str, module: str = "benchmarks", environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *arguments]
    variables = os.environ | (environment or {})
    return subprocess.run(
        command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=300
    )


def require(framework: str) -> None:
    if importlib.util.find_spec(MODULES[framework]) is None:
        pytest.skip(f"{MODULES[framework]} is not installed")


@pytest.mark.parametrize("framework", MODULES)
def test_json_has_one_complete_row_and_a_positive_median(framework: str, tmp_path: Path) -> None:
    require(framework)
    path = tmp_path / "out.json"
    done = run("--quick", "--only", TINY, "--frameworks", framework, "--json", str(path))
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(path.read_text())["table"]["rows"]
    assert {"name", "unit", *FRAMEWORKS} <= set(row)
    assert (row["name"], row["unit"]) == (TINY, "us")
    assert row[framework] is not None and row[framework] > 0, done.stdout
    assert all(row[other] is None for other in FRAMEWORKS if other != framework)


def test_every_program_that_was_asked_for_has_a_row() -> None:
    names = [case.name for case in all_cases()]
    assert len(names) == len(set(names))
    for batch in (8, 32, 128):
        for program in ("mlp/train/adam", "mlp/train/sgd", "mlp/infer"):
            assert f"{program}/b{batch}" in names
    listed = run("--list")
    assert listed.stdout.split() == names


def test_unknown_pattern_is_refused_with_the_way_out() -> None:
    done = run("--only", "no-such-row")
    assert done.returncode == 1
    assert "no-such-row" in done.stderr and "--list" in done.stderr


def test_a_failing_framework_gives_an_empty_cell_and_its_reason() -> None:
    require("library_sum")
    broken = Case("broken", "no-such-family", "us", "infer", batch=8, megabytes=1)
    settings = Settings(threads=1, rounds=1, block_seconds=0.01)
    with Runner(settings, ("library_sum",)) as runner:
        row = runner.measure(broken)
        assert row.to_json()["library_sum"] is None
        assert "no-such-family" in row.failures["library_sum"]
        again = runner.measure(next(c for c in all_cases() if c.name == "light/1MB"))
    assert again.to_json()["library_sum"] is not None, "the worker must outlive a failed build"


def test_weights_hold_the_parameters_of_the_tutorial() -> None:
    case = next(c for c in all_cases() if c.name == "mlp/train/adam/b8")
    assert data.parameter_count(case) == 932_362


def row_of(name: str, **times: float) -> dict[str, object]:
    return {"name": name, "unit": "us", **dict.fromkeys(FRAMEWORKS), **times, "notes": {}}


def test_table_divides_by_pando_and_takes_the_fastest_peer() -> None:
    ours = {"pando": 10.0, "library_sum": 5.0, "lower_bound": 2.5}
    text = render([row_of("a", torch_eager=40.0, jax=20.0, mlx=30.0, **ours)])
    assert text.splitlines()[-1].split()[-4:] == ["4.00x", "2.00x", "2.00x", "4.00x"]


def test_ops_table_takes_medians_over_the_sizes_of_an_operation() -> None:
    times = {"op/sum/1": (1.0, 4.0), "op/sum/10": (2.0, 1.0), "op/sum/100": (1.0, 1.5)}
    times |= {"op/sort/1": (1.0, 2.0), "op/sort/10": (1.0, 0.8)}
    rows = [
        {"name": name, "unit": "us", "pando": pando, "torch_eager": eager}
        for name, (pando, eager) in times.items()
    ]
    text = render_ops(rows)
    assert text.splitlines()[-1] == (
        "geometric mean 1.37x; slowest operation (median over sizes) op/sort 1.40x; "
        "slowest row op/sum/10 0.50x"
    )
    assert ["op/sum", "1.50x", "0.50x"] in [line.split() for line in text.splitlines()]


def test_compare_shows_ratio_and_rows_of_one_file_only() -> None:
    text = compare([row_of("a", pando=10.0), row_of("b")], [row_of("a", pando=5.0), row_of("c")])
    assert "2.00x" in text
    assert "only in the old file: b" in text and "only in the new file: c" in text


def test_the_pando_of_another_checkout_runs_beside_this_one(tmp_path: Path) -> None:
    """A copy of the packages, so that what answers can only come from there; an older one, which
    lacks an op of other rows."""
    packages = tmp_path / "other" / "python"
    shutil.copytree(ROOT / "python", packages, ignore=shutil.ignore_patterns("bindings"))
    mark = "\nimport os\nopen(os.environ['PANDO_TEST_MARK'], 'w').close()\ndel ops.grouped_matmul\n"
    with (packages / "popxl" / "__init__.py").open("a") as file:
        file.write(mark)
    marked, path = tmp_path / "mark", tmp_path / "out.json"
    command = ["--quick", "--only", TINY, "--against", str(packages.parent), "--json", str(path)]
    done = run(*command, environment={"PANDO_TEST_MARK": str(marked)})
    assert done.returncode == 0, done.stderr
    assert marked.exists(), "the packages of the other checkout were not imported"
    (row,) = json.loads(path.read_text())["against"]["rows"]
    assert row["before"] > 0 and row["pando"] > 0
    assert f"{row['before'] / row['pando']:.2f}x" in done.stdout


def test_the_faster_of_two_processes_counts() -> None:
    row = Row(CASE)
    for times in ((3e-6, 2e-6, 4e-6), (1e-6, 2e-6, 1.5e-6), (5e-6, 6e-6, 7e-6)):
        row.add("before", [Sample(seconds, others=0.0, whole=0.3) for seconds in times], wanted=3)
    assert row.medians["before"] == pytest.approx(1.5)
    assert row.spread["before"] == pytest.approx(0.667)


def test_a_slower_quiet_process_does_not_hide_a_disturbed_one() -> None:
    row = Row(CASE)
    row.add("before", [Sample(2e-6, others=0.5, whole=0.3)], wanted=1)
    row.add("before", [Sample(3e-6, others=0.0, whole=0.3)], wanted=1)
    assert row.disturbed == {"before": 0.5}
    row.add("before", [Sample(1e-6, others=0.0, whole=0.3)], wanted=1)
    assert row.disturbed == {}


def test_a_checkout_that_is_not_built_is_refused(tmp_path: Path) -> None:
    done = run("--against", str(tmp_path))
    assert done.returncode == 1
    assert "./dev build" in done.stderr


def test_compare_refuses_other_files(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for text in ('[{"name": "a"}]', '{"table": {"rows": []}}', "{", '{"memory": {}}'):
        path.write_text(text)
        done = run("compare", str(path), str(path))
        assert done.returncode == 1
        assert "x.json" in done.stderr and "Traceback" not in done.stderr
    path.write_text('{"memory": {"measured": {}, "rows": []}}')
    done = run("compare", str(path), str(path))
    assert done.returncode == 1
    assert "no section 'table'" in done.stderr and "memory" in done.stderr


@pytest.mark.parametrize("framework", ["pando", "torch_eager", "jax"])
def test_a_model_row_has_time_memory_and_first_step(framework: str, tmp_path: Path) -> None:
    require(framework)
    path = tmp_path / "out.json"
    command = ["models", "--quick", "--only", "mlp/infer", "--frameworks", framework]
    done = run(*command, "--json", str(path))
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(path.read_text())["models"]["rows"]
    assert (row["name"], row["unit"], row["mode"]) == ("mlp/infer/b32", "ms", "infer")
    added, peak = row["added_mebibytes"][framework], row["peak_mebibytes"][framework]
    assert 0 < added < peak
    # The step is one of many that follow the first, which has the compilation with it.
    assert row["first_step_seconds"][framework] * 1e3 > row[framework] > 0


def test_the_memory_of_a_row_is_not_that_of_the_row_before() -> None:
    big, small = (
        Case(f"{family}", family, "ms", "infer", batch=8, megabytes=64 if family == "light" else 0)
        for family in ("light", "mlp")
    )
    settings = Settings(threads=1, rounds=1, block_seconds=0.01, fresh=True)
    with Runner(settings, ("pando",)) as runner:
        rows = [runner.measure(case).to_json() for case in (big, small)]
    added = [row["added_mebibytes"]["pando"] for row in rows]
    assert added[0] > 128 and added[1] < 100


def test_a_model_row_that_nobody_can_start_is_shown(tmp_path: Path) -> None:
    for package in ("pando", "popxl"):
        (tmp_path / f"{package}.py").write_text("raise ValueError('broken')\n")
    command = [sys.executable, "-m", "benchmarks", "models", "--quick", "--only", "mlp/infer"]
    done = subprocess.run(
        [*command, "--frameworks", "pando"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "failed:\nmlp/infer/b32: pando: ValueError: broken" in done.stdout


def test_a_form_of_torch_compile_can_be_chosen_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, bool] | None] = []

    def uncompiled(module: Any, options: dict[str, bool] | None = None) -> Any:
        asked.append(options)
        return module

    # Which form is asked for needs no compiler.
    monkeypatch.setattr(torch, "compile", uncompiled)
    case = replace(next(c for c in model_cases() if c.name == "mlp/infer/b32"), form="freezing")
    assert case.form in torch_compile.forms(case)
    program = torch_compile.build(case, torch.get_num_threads())
    assert asked == [{"freezing": True}]
    assert program.note == "freezing"


class ScriptedWorker(WorkerProcess):
    """Answers as a worker would, with the seconds a step of each form takes; none: it fails."""

    seconds: ClassVar[dict[str, float | None]] = {}
    built: ClassVar[list[str]] = []
    form = ""

    @property
    def pid(self) -> int:
        return os.getpid()

    def ask(self, **request: Any) -> dict[str, Any]:
        reply: dict[str, Any] = {"ok": True, "forms": list(self.seconds), "resident": 1, "peak": 2}
        if request["do"] == "build":
            self.form = request["case"]["form"]
            self.built.append(self.form)
            first = len(self.built)
            reply |= {
                "note": self.form,
                "first_seconds": first,
                "ok": bool(self.seconds[self.form]),
            }
        reply["seconds"] = self.seconds.get(self.form)
        return reply if reply["ok"] else {"ok": False, "absent": False, "error": "no " + self.form}

    def take_over(self, other: WorkerProcess) -> None:
        assert isinstance(other, ScriptedWorker)
        self.form = other.form


class ScriptedRunner(Runner):
    def _new_worker(self, framework: str) -> WorkerProcess:
        return ScriptedWorker(framework, self._settings, Path("unused.log"))


def measure_scripted(*cases: Case, **seconds: float | None) -> list[Row]:
    ScriptedWorker.seconds, ScriptedWorker.built = seconds, []
    settings = Settings(threads=1, rounds=2, retry_disturbed=False, fresh=True)
    with ScriptedRunner(settings, ("torch_compile",)) as runner:
        return [runner.measure(case) for case in cases]


def test_the_process_of_the_fastest_form_is_measured() -> None:
    case = model_cases()[0]
    (row,) = measure_scripted(case, slow=2.0, fails=None, fast=1.0, last=3.0)
    assert ScriptedWorker.built == ["slow", "fails", "fast", "last"], "each is built once"
    assert row.medians == {"torch_compile": 1e3}
    assert row.notes == {"torch_compile": "fast"}
    assert row.first_step == {"torch_compile": 3}
    assert row.failures == {}


def test_rows_of_one_program_of_the_peers_share_the_fastest_form() -> None:
    case = model_cases()[0]
    other = replace(case, name="x", front_end="poptorch", fit_in="1GiB")
    rows = measure_scripted(case, other, replace(case, batch=7), slow=2.0, fast=1.0)
    assert ScriptedWorker.built == ["slow", "fast", "fast", "slow", "fast"]
    assert [row.notes for row in rows] == [{"torch_compile": "fast"}] * 3


def test_where_no_form_works_the_reason_of_the_first_is_shown() -> None:
    (row,) = measure_scripted(model_cases()[0], one=None, two=None)
    assert row.failures == {"torch_compile": "no one"}
    assert row.medians == {}


@pytest.mark.parametrize(
    ("seconds", "disturbed", "blocks"), [(0.3, 0, 7), (6.0, 0, 4), (30.0, 0, 3), (6.0, 99, 10)]
)
def test_slow_programs_get_fewer_blocks(seconds: float, disturbed: int, blocks: int) -> None:
    runner = Runner(Settings(threads=1, row_seconds=20.0), ())
    taken: list[Sample] = []
    while not runner._enough(taken, 7):
        taken.append(Sample(1.0, others=0.5 if len(taken) < disturbed else 0.0, whole=seconds))
    assert len(taken) == blocks


def test_models_table_compares_with_the_fastest_peer() -> None:
    def found(name: str, mode: str, **times: float) -> dict[str, object]:
        extra = {
            "mode": mode,
            "added_mebibytes": {"pando": 10.0, "jax": 40.0, "torch_eager": 5.0},
            "first_step_seconds": {"pando": 2.0, "jax": 3.0, "torch_eager": 1.0},
        }
        return row_of(name, **times) | extra

    text = render_models(
        [
            found("a", "train", pando=10.0, jax=20.0, torch_eager=40.0),
            found("b", "infer", pando=10.0, jax=20.0, torch_eager=5.0),
            found("c", "infer", pando=10.0),
        ]
    )
    lines = [line.split() for line in text.splitlines()]
    assert next(line for line in lines if line[:1] == ["a"])[5:] == [
        *("jax", "20.0", "2.00x", "4.00x", "1.50x"),
    ]
    assert next(line for line in lines if line[:1] == ["c"])[5:] == ["-"] * 5
    assert "geometric means of training: time 2.00x, memory 4.00x, first step 1.50x" in text
    assert "geometric means of inference: time 0.50x, memory 0.50x, first step 0.50x" in text


def test_memory_has_its_rows_in_table_and_json(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    done = run("--quick", "--json", str(path), module="benchmarks.memory")
    assert done.returncode == 0, done.stderr
    rows = json.loads(path.read_text())["memory"]["rows"]
    wanted = {
        "phased time": 1.15,
        "sharded optimizer state": 0.51,
        "recomputation memory": 0.25,
        "recomputation time": 1.4,
    }
    assert {row["name"]: row["wanted"] for row in rows} == wanted
    for row in rows:
        first, second = row["values"].values()
        # Tiny networks of one round: the ratio of the two values.
        assert row["measured"] == pytest.approx(first / second)
        assert f"{row['name']} " in done.stdout and f"{row['measured']:.3f}x" in done.stdout


def test_a_contest_takes_the_median_of_the_ratios_of_its_rounds() -> None:
    rounds = [Round((2.0, 1.0), 0.0), Round((9.0, 3.0), 0.01), Round((4.0, 4.0), 0.0)]
    row = Contest((lambda: None, lambda: None), rounds).row("a", 1.5, ("new", "old"), 10)
    assert (row.measured, row.spread, row.disturbed) == (2.0, 1.0, 0.01)
    assert row.values == pytest.approx({"new": 4e5, "old": 3e5})


def test_scale_has_its_rows_in_table_and_json(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    done = run("--quick", "--rounds", "1", "--json", str(path), module="benchmarks.scale")
    assert done.returncode == 0, done.stderr
    rows = json.loads(path.read_text())["scale"]["rows"]
    assert {row["name"]: row["wanted"] for row in rows} == {
        "building": 10,
        "memory": 4,
        "built and compiled 3,000": 2,
        "twice the ops": 2.2,
        "peak memory": 16,
        "peak memory of twice the ops": 16,
        "parts of a variable, 3,000": 2,
        "twice the parts": 2.2,
        "100 nested calls": 0.3,
        "gradients of 25": 512,
        "time of gradients of 25": 1,
        "100 graphs called twice": 0.6,
        "48 layers over 2": 2,
        "tutorial": 1.5,
    }
    for row in rows:
        assert row["measured"] > 0
        assert f"{row['name']} " in done.stdout and f"{row['measured']:,.2f}" in done.stdout


def test_memory_refuses_rounds_and_parts_that_do_not_exist() -> None:
    for arguments in (["--rounds", "0"], ["--only", "nothing"]):
        done = run(*arguments, module="benchmarks.memory")
        assert done.returncode == 2
        assert arguments[1] in done.stderr


def test_rows_that_another_checkout_lacks_are_named_without_a_ratio() -> None:
    both = {"name": "a", "unit": "us", "before": 6.0, "pando": 3.0, "spread": {}}
    lacking = {"name": "b", "unit": "us", "pando": 4.0, "spread": {}}
    lines = render_against([both, lacking]).splitlines()
    assert "2.00x" in lines[-4] and lines[-3].split() == ["b", "us", "-", "4.00", "-", "0%"]
    assert lines[-1] == "geometric mean 2.00x, least 2.00x"


def test_products_of_half_precision_are_compared_with_those_of_float32() -> None:
    done = run("--rounds", "1", "--seconds", "0", module="benchmarks.half_products")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    assert [row[-4] for row in rows] == ["float16", "bfloat16", "bfloat16"]
    for *_, half, single, ratio in rows:
        assert float(ratio[:-1]) == pytest.approx(float(single) / float(half), rel=0.05)
