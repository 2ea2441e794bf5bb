"""Whole models: ``python -m benchmarks models``.

A family is a package. It holds sizes by name, weights and batches in NumPy, and the network as a
user of each framework writes it: ``on_popxl``, ``on_torch`` (eager and compiled) and ``on_jax``.
"""
