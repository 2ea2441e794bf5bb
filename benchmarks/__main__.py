"""``python -m benchmarks``: see README.md in this folder."""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.cases import FRAMEWORKS, Case, all_cases
from benchmarks.op_cases import op_cases
from benchmarks.runner import Settings, run_cases
from benchmarks.table import JsonRow, compare, render, render_notes, render_ops

OP_FRAMEWORKS = ("pando", "torch_eager")


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
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the rows as JSON")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="row names")
    parser.add_argument(
        "--frameworks", nargs="+", choices=frameworks, default=list(frameworks), metavar="NAME"
    )
    parser.add_argument("--quick", action="store_true", help="short blocks: a check, not a result")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--rounds", type=int, default=7, help="blocks per framework and row")
    parser.add_argument("--list", action="store_true", help="print the row names and stop")
    return parser


def _run(arguments: list[str], single_ops: bool) -> int:
    options = _run_parser(OP_FRAMEWORKS if single_ops else FRAMEWORKS).parse_args(arguments)
    if options.threads < 1 or options.rounds < 1:
        sys.exit(f"--threads {options.threads}, --rounds {options.rounds}: both must be at least 1")
    cases = _selected(op_cases() if single_ops else all_cases(), options.only)
    if not cases:
        sys.exit(f"no row matches {options.only}; --list prints the names")
    if options.list:
        print("\n".join(case.name for case in cases))
        return 0
    settings = Settings(threads=options.threads, rounds=options.rounds)
    if options.quick:
        settings = replace(settings, rounds=2, compile_rounds=1, block_seconds=0.02)
        settings = replace(settings, retry_disturbed=False)
    rows = run_cases(cases, settings, tuple(options.frameworks))
    found = [row.to_json() for row in rows]
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    print(f"medians of {settings.rounds} interleaved blocks, {settings.threads} threads")
    print(render_ops(found) if single_ops else render(found))
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
    return 0


def _load(path: str) -> list[JsonRow]:
    try:
        rows = json.loads(Path(path).read_text())
        missing = [key for key in ("name", "unit", *FRAMEWORKS) for row in rows if key not in row]
    except (OSError, ValueError, TypeError) as error:
        sys.exit(f"{path}: not a result of python -m benchmarks --json: {error}")
    if missing:
        sys.exit(f"{path}: not a result of python -m benchmarks --json: no {missing[0]!r} in a row")
    return list(rows)


def _compare(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks compare")
    parser.add_argument("old", metavar="OLD.json")
    parser.add_argument("new", metavar="NEW.json")
    options = parser.parse_args(arguments)
    print(compare(_load(options.old), _load(options.new)))
    return 0


def main() -> int:
    # As an exception, so that the workers are stopped on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    arguments = sys.argv[1:]
    if arguments[:1] == ["compare"]:
        return _compare(arguments[1:])
    if arguments[:1] == ["ops"]:
        return _run(arguments[1:], single_ops=True)
    return _run(arguments, single_ops=False)


if __name__ == "__main__":
    sys.exit(main())
