"""The project's own source files, as git knows them."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def source_files(*patterns: str) -> list[Path]:
    """Tracked and new files that match git's `patterns`, relative to the root."""
    command = ["git", "ls-files", "-z", "-co", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    names = sorted(set(listed.split("\0")) - {""})
    return [Path(name) for name in names if (ROOT / name).is_file()]
