"""Results on meta tensors of operators whose own rule torch lacks, by name with overload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SHAPE_RULES: dict[str, Callable[..., Any]] = {}
