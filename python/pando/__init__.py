"""Pando: a graph compiler and runtime for training under explicit control of memory and time."""

__version__ = "0.1.0"
