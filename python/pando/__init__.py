"""Pando: a graph compiler and runtime for training under explicit control of memory and time."""

from pando.op_library import LibraryOp, OpLibrary, get_include, load_library

__all__ = ["LibraryOp", "OpLibrary", "get_include", "load_library"]
__version__ = "0.1.0"
