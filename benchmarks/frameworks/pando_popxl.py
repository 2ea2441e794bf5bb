"""Pando through popxl: sessions stay open for the whole row, as in a training loop."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from typing import Any

import numpy as np

import popxl
from benchmarks import data
from benchmarks.cases import NETWORKS, Case
from benchmarks.frameworks import popxl_ops
from benchmarks.frameworks import popxl_programs as programs
from benchmarks.program import Once, Program, Steps

DEVICE = "cpu"


def _steps(session: popxl.Session, feeds: list[dict[Any, Any]]) -> Steps:
    """``feeds``: what ``run`` is given, in turn; each holds other host arrays."""
    turns = itertools.cycle(feeds)
    session.__enter__()

    def run(steps: int) -> None:
        for feed in itertools.islice(turns, steps):
            session.run(feed)

    return Steps(run, close=lambda: session.__exit__(None, None, None))


def _network(case: Case) -> Steps:
    built = programs.training(case) if case.training else programs.network_inference(case)
    session = popxl.Session(built.ir, DEVICE)
    feeds = [
        dict(zip(built.inputs, (batch.x, batch.labels), strict=False))
        for batch in data.batches(case)
    ]
    return _steps(session, feeds)


def _near_empty() -> Steps:
    built = programs.near_empty()
    feeds = [{built.inputs[0]: np.full(1, i, np.float32)} for i in range(data.BATCHES)]
    return _steps(popxl.Session(built.ir, DEVICE), feeds)


def _compile_time(case: Case) -> Once:
    """``session``: ``popxl.Session(ir)`` alone; ``total``: building the Ir as well."""
    scope, _, family = case.mode.partition("_")
    program = replace(case, family=family, mode="train")

    def measure() -> float:
        start = time.perf_counter()
        built = programs.training(program)
        if scope == "session":
            start = time.perf_counter()
        session = popxl.Session(built.ir, DEVICE)
        taken = time.perf_counter() - start
        del session
        return taken

    return Once(measure)


def build(case: Case, threads: int) -> Program:
    del threads  # Pando takes every core that the process may use; the worker limits those
    if case.family == "op":
        return popxl_ops.build(case)
    if case.family == "compile":
        return _compile_time(case)
    if case.family == "empty":
        return _near_empty()
    if case.family in NETWORKS:
        return _network(case)
    return _steps(popxl.Session(programs.pass_over_memory(case), DEVICE), [{}])
