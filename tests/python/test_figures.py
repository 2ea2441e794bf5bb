"""The script that writes the tables of figures: from one JSON, by rows, with reasons."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = "<!-- figures:begin -->\nold\n<!-- figures:end -->\n"
MEASURED = {
    "commit": "0123456789ab",
    "processor": "Some Processor",
    "instruction_sets": ["avx2"],
    "cores": 2,
    "date": "2026-01-02",
    "python": "3.11.7",
    "versions": {"torch": "2.13.0"},
}


def table_row(name: str, pando: float, **others: float) -> dict[str, object]:
    frameworks = ("torch_eager", "torch_compile", "jax", "mlx", "library_sum", "lower_bound")
    return {"name": name, "unit": "us", **dict.fromkeys(frameworks), "pando": pando, **others}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    rows = [
        table_row("mlp/train/adam/b8", 100.0, torch_eager=500.0, jax=150.0, library_sum=80.0),
        table_row("light/64MB", 2500.0, torch_eager=9000.0, jax=2000.0, lower_bound=1250.0),
    ]
    memory = {"name": "phased time", "measured": 1.05, "wanted": 1.15, "unit": "us per sample"}
    sections = {
        "table": {"measured": MEASURED, "rows": rows},
        "memory": {"measured": MEASURED, "rows": [memory | {"values": {"a": 2.1, "b": 2.0}}]},
    }
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "figures.json").write_text(json.dumps(sections))
    reasons = '"light/*" = "Memory."\n"mlp/*" = "Products."\n'
    (tmp_path / "docs" / "figure_reasons.toml").write_text(reasons)
    for page in ("README.md", "docs/performance.md"):
        (tmp_path / page).write_text(f"# Title\n\n{BLOCK}\nAfter.\n")
    return tmp_path


def model_row(name: str, mode: str, pando: float, **others: float) -> dict[str, object]:
    extra = {
        "mode": mode,
        "added_mebibytes": {"pando": 100.0, "jax": 300.0},
        "first_step_seconds": {"pando": 0.5, "jax": 2.0},
    }
    return table_row(name, pando, **others) | {"unit": "ms"} | extra


def test_whole_models_have_ratios_of_three_kinds_and_their_means(checkout: Path) -> None:
    path = checkout / "docs" / "figures.json"
    rows = [
        model_row("bert/train", "train", 10.0, jax=5.0, torch_eager=80.0),
        model_row("gpt2/train", "train", 10.0, jax=20.0),
        model_row("bert/infer", "infer", 2.0, jax=6.0),
    ]
    modules = [model_row("lstm/train", "train", 100.0, torch_eager=109.0)]
    sections = json.loads(path.read_text()) | {
        name: {"measured": MEASURED, "rows": found}
        for name, found in (("models", rows), ("torch", modules))
    }
    path.write_text(json.dumps(sections))
    reasons = checkout / "docs" / "figure_reasons.toml"
    more = '"models:lstm/*" = "Cells."\n"torch:lstm/*" = "Products."\n"lstm/*" = "Steps."\n'
    reasons.write_text(reasons.read_text() + '"bert/*" = "Slow."\n' + more)
    done = run(checkout)
    assert done.returncode == 0, done.stderr
    page = (checkout / "docs" / "performance.md").read_text()
    cells = {
        line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:-1]]
        for line in page.split("## Whole models")[1].splitlines()
        if line.startswith(("| `", "| geometric"))
    }
    assert cells["`bert/train`"] == [
        *("10 ms", "100 MiB", "0.50 s", "JAX"),
        *("0.50x", "3.00x", "4.00x"),
    ]
    assert cells["geometric mean, training"][-3:] == ["1.00x", "3.00x", "4.00x"]
    assert cells["geometric mean, inference"][-3:] == ["3.00x", "3.00x", "4.00x"]
    assert "- `bert/train`: time 0.50x the best peer. Slow." in page
    assert "## Modules of PyTorch" in page
    short = "Modules of PyTorch:\n\n- `lstm/train`: time 1.09x the best peer. Products."
    assert short in page


def run(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = ROOT / "scripts" / "write_figures.py"
    command = [sys.executable, str(script), "--root", str(checkout), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_tables_have_the_ratios_of_the_json(checkout: Path) -> None:
    assert run(checkout, "--check").returncode == 1, "the pages are not written yet"
    done = run(checkout)
    assert done.returncode == 0, done.stderr
    page = (checkout / "docs" / "performance.md").read_text()
    cells = {
        line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:-1]]
        for line in page.splitlines()
        if line.startswith("| `")
    }
    assert cells["`mlp/train/adam/b8`"] == ["100 us", "5.00x", "1.50x", "JAX", "1.25x", "-"]
    assert cells["`light/64MB`"] == ["2.5 ms", "3.60x", "0.80x", "JAX", "-", "2.00x"]
    assert "2 cores of Some Processor (avx2), 2026-01-02, commit `0123456789ab`" in page
    assert page.startswith("# Title") and page.endswith("After.\n") and "old" not in page
    assert "5.00x as fast as PyTorch eager" in (checkout / "README.md").read_text()
    assert run(checkout, "--check").returncode == 0


def test_rows_that_fall_short_are_listed_with_their_reason(checkout: Path) -> None:
    run(checkout)
    page = (checkout / "docs" / "performance.md").read_text()
    short = page.split("## Rows that fall short")[1]
    assert re.findall(r"- `(\S+)`: (.*)", short) == [
        ("mlp/train/adam/b8", "1.25x the library sum. Products."),
        ("light/64MB", "0.80x the best peer. Memory."),
    ]


def test_rows_without_figures_are_named_and_quick_checks_refused(checkout: Path) -> None:
    path = checkout / "docs" / "figures.json"
    sections = json.loads(path.read_text())
    sections["table"]["missing"] = ["gpt2/train"]
    path.write_text(json.dumps(sections))
    run(checkout)
    assert "Not measured: `gpt2/train`." in (checkout / "docs" / "performance.md").read_text()
    sections["table"]["measured"]["quick"] = True
    path.write_text(json.dumps(sections))
    done = run(checkout)
    assert done.returncode == 1 and "--quick" in done.stderr


def test_a_row_without_a_reason_and_a_page_without_a_block_are_refused(checkout: Path) -> None:
    (checkout / "docs" / "figure_reasons.toml").write_text('"mlp/*" = "Products."\n')
    done = run(checkout)
    assert done.returncode == 1 and "light/64MB" in done.stderr
    (checkout / "docs" / "figure_reasons.toml").write_text('"*" = "Why."\n')
    (checkout / "README.md").write_text("# Title\n")
    done = run(checkout)
    assert done.returncode == 1 and "README.md" in done.stderr
