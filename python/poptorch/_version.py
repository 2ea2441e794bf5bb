"""The version of the interface, then, after a plus sign, that of Pando."""

from __future__ import annotations

__version__ = "3.4.0+pando.0.1.0"
