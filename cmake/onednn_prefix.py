"""Prints the folder above lib/libdnnl.so.3 of the installed package onednn-cpu-gomp, if any."""

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

try:
    installed = files("onednn-cpu-gomp") or []
except PackageNotFoundError:
    installed = []
for file in installed:
    if file.name == "libdnnl.so.3":
        print(Path(file.locate()).resolve().parent.parent)
