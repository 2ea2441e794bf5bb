"""``python -m benchmarks``: see README.md in this folder."""

from __future__ import annotations

import argparse
import fnmatch
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.cases import FRAMEWORKS, Case, all_cases
from benchmarks.figures import ROOT, NotFigures, load_sections, save_rows
from benchmarks.models.families import model_cases, torch_cases
from benchmarks.op_cases import op_cases
from benchmarks.runner import AGAINST, Row, Settings, run_cases
from benchmarks.table import (
    JsonRow,
    compare,
    render,
    render_against,
    render_models,
    render_notes,
    render_ops,
)

FIGURES = ROOT / "docs" / "figures.json"


@dataclass(frozen=True)
class Suite:
    """A list of cases, who runs them, and how they are shown."""

    section: str
    cases: Callable[[], list[Case]]
    frameworks: tuple[str, ...]
    render: Callable[[list[JsonRow]], str]
    # Every row in new processes, for their memory and the time to the first step.
    fresh: bool = False


TABLE = Suite("table", all_cases, FRAMEWORKS, render)
# By the first word of the command line.
SUITES = {
    "ops": Suite("ops", op_cases, ("pando", "torch_eager"), render_ops),
    "models": Suite(
        "models",
        model_cases,
        ("pando", "torch_eager", "torch_compile", "jax"),
        render_models,
        fresh=True,
    ),
    "torch": Suite(
        "torch", torch_cases, ("pando", "torch_eager", "torch_compile"), render_models, fresh=True
    ),
}
# What `figures` runs, in this order; each writes a section of FIGURES.
FIGURE_COMMANDS = (
    ["benchmarks"],
    ["benchmarks", "models"],
    ["benchmarks", "torch"],
    ["benchmarks.memory"],
    ["benchmarks.parallel"],
    ["benchmarks.phased"],
    ["benchmarks.phased_torch"],
)


def _selected(cases: list[Case], patterns: list[str]) -> list[Case]:
    """Cases whose name contains a pattern, or matches it as a glob; all without patterns."""
    if not patterns:
        return cases
    return [
        case
        for case in cases
        if any(p in case.name or fnmatch.fnmatch(case.name, p) for p in patterns)
    ]


def _run_parser(frameworks: tuple[str, ...]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write each row there")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="row names")
    parser.add_argument(
        "--frameworks", nargs="+", choices=frameworks, default=list(frameworks), metavar="NAME"
    )
    parser.add_argument(
        "--against",
        type=Path,
        metavar="FOLDER",
        help="a built checkout: its Pando beside this one, with the programs of this one",
    )
    parser.add_argument("--quick", action="store_true", help="short blocks: a check, not a result")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--rounds", type=int, default=7, help="blocks per process and row")
    parser.add_argument("--list", action="store_true", help="print the row names and stop")
    return parser


def _packages(checkout: Path) -> Path:
    packages = checkout.resolve() / "python"
    if not list(packages.glob("pando/_core*.so")):
        sys.exit(f"--against {checkout}: no built Pando in {packages}: run ./dev build there")
    return packages


def _settings(options: argparse.Namespace) -> Settings:
    if options.threads < 1 or options.rounds < 1:
        sys.exit(f"--threads {options.threads}, --rounds {options.rounds}: both must be at least 1")
    settings = Settings(threads=options.threads, rounds=options.rounds)
    if options.against is not None:
        packages = _packages(options.against)
        settings = replace(settings, packages=packages, compile_rounds=options.rounds)
    if options.quick:
        settings = replace(settings, rounds=2, compile_rounds=1, block_seconds=0.02)
        settings = replace(settings, retry_disturbed=False)
    return settings


def _run(arguments: list[str], suite: Suite) -> int:
    options = _run_parser(suite.frameworks).parse_args(arguments)
    settings = replace(_settings(options), fresh=suite.fresh)
    cases = _selected(suite.cases(), options.only)
    if not cases:
        sys.exit(f"no row matches {options.only}; --list prints the names")
    if options.list:
        print("\n".join(case.name for case in cases))
        return 0
    against = options.against is not None
    frameworks = AGAINST if against else tuple(options.frameworks)
    section = "against" if against else suite.section
    order = [case.name for case in suite.cases()]
    rows, found = [], []
    for row in run_cases(cases, settings, frameworks):
        rows.append(row)
        found.append(row.to_json())
        if options.json is not None:
            save_rows(options.json, section, found, order, quick=options.quick)
    print(f"medians of {settings.rounds} interleaved blocks, {settings.threads} threads")
    print((render_against if against else suite.render)(found))
    _print_remarks(rows, found)
    return 0


def _print_remarks(rows: list[Row], found: list[JsonRow]) -> None:
    print(render_notes(found))
    busy = [f"{r.case.name} ({', '.join(r.disturbed)})" for r in rows if r.disturbed]
    if busy:
        shown = "; ".join(busy[:8]) + ("; ..." if len(busy) > 8 else "")
        print(
            f"other processes were running during {len(busy)} of {len(rows)} rows, do not trust: "
            f"{shown}"
        )
    failed = [f"{r.case.name}: {who}: {why}" for r in rows for who, why in r.failures.items()]
    if failed:
        print("failed:\n" + "\n".join(failed))


def _load(path: str) -> list[JsonRow]:
    try:
        sections = load_sections(Path(path))
    except NotFigures as error:
        sys.exit(str(error))
    if "table" not in sections:
        sys.exit(f"{path}: no section 'table'; there are {', '.join(sections) or 'none'}")
    return list(sections["table"]["rows"])


def _compare(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks compare")
    parser.add_argument("old", metavar="OLD.json")
    parser.add_argument("new", metavar="NEW.json")
    options = parser.parse_args(arguments)
    print(compare(_load(options.old), _load(options.new)))
    return 0


def _figures(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks figures")
    parser.add_argument("--json", type=Path, default=FIGURES, metavar="PATH")
    options = parser.parse_args(arguments)
    for module, *flags in FIGURE_COMMANDS:
        command = [sys.executable, "-m", module, *flags, "--json", str(options.json)]
        print(f"== python -m {' '.join(command[2:])}", flush=True)
        subprocess.run(command, cwd=ROOT, check=True)
    return 0


def main() -> int:
    # As an exception, so that the workers are stopped on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    arguments = sys.argv[1:]
    if arguments[:1] == ["compare"]:
        return _compare(arguments[1:])
    if arguments[:1] == ["figures"]:
        return _figures(arguments[1:])
    if arguments[:1] and arguments[0] in SUITES:
        return _run(arguments[1:], SUITES[arguments[0]])
    return _run(arguments, TABLE)


if __name__ == "__main__":
    sys.exit(main())
