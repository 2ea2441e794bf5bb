"""Figures on disk: one JSON of sections, each with its rows and where they were measured.

``{"table": {"measured": {"commit": ..., "processor": ..., ...}, "rows": [...]}, "memory": ...}``. A
benchmark that is given ``--json PATH`` writes its section and leaves the others as they are.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PEER_PACKAGES = ("torch", "jax", "mlx", "numpy")

Section = dict[str, Any]


class NotFigures(ValueError):
    """A file that was not written by `--json`; the message names the file and what it lacks."""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()


def _instruction_sets() -> list[str]:
    """Those that decide which kernels run."""
    try:
        flags = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return []
    return [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if name in flags]


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def measured() -> dict[str, Any]:
    """Commit, processor, cores, date and versions of this run."""
    versions = {name: _version(name) for name in PEER_PACKAGES}
    return {
        "commit": _commit(),
        "processor": _processor(),
        "instruction_sets": _instruction_sets(),
        "cores": len(os.sched_getaffinity(0)),
        "date": datetime.now(timezone.utc).date().isoformat(),
        "python": platform.python_version(),
        "versions": {name: version for name, version in versions.items() if version is not None},
    }


def load_sections(path: Path) -> dict[str, Section]:
    """Raises NotFigures where the file cannot be read or is something else."""
    try:
        sections = json.loads(path.read_text())
        complete = all({"measured", "rows"} <= set(section) for section in sections.values())
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise NotFigures(f"{path}: not figures of a benchmark: {error}") from None
    if not complete:
        raise NotFigures(f"{path}: not figures of a benchmark: a section lacks its rows")
    return dict(sections)


def save_section(path: Path, name: str, rows: list[dict[str, Any]]) -> None:
    """Replaces one section of the file, or makes the file."""
    _save(path, name, {"measured": measured(), "rows": rows})


def save_rows(
    path: Path, name: str, rows: list[dict[str, Any]], order: list[str], *, quick: bool = False
) -> None:
    """Replaces rows of one section by their names; the others stay if commit, machine, versions and
    ``quick`` are the same. ``rows``: all of this run so far; ``order``: the names that a whole
    section has, of which those without a row are named in ``missing``; ``quick``: whether blocks
    were too short for times that mean something.
    """
    where = measured() | ({"quick": True} if quick else {})
    section: Section = {"measured": where, "rows": rows}
    before = load_sections(path).get(name) if path.exists() else None
    # A run may go on past midnight.
    if before is not None and before["measured"] | {"date": ""} == where | {"date": ""}:
        by_name = {row["name"]: row for row in (*before["rows"], *rows)}
        section["rows"] = [by_name[one] for one in order if one in by_name]
    present = {row["name"] for row in section["rows"]}
    section["missing"] = [one for one in order if one not in present]
    _save(path, name, section)


def _save(path: Path, name: str, section: Section) -> None:
    sections = load_sections(path) if path.exists() else {}
    sections[name] = section
    temporary = path.with_suffix(path.suffix + ".new")
    temporary.write_text(json.dumps(sections, indent=1) + "\n")
    temporary.replace(path)
