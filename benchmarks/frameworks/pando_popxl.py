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
from benchmarks.models import families, generation
from benchmarks.program import Once, Program, Steps
from pando.settings import use_session_settings

DEVICE = "cpu"


def _training_steps(case: Case) -> Steps:
    built = programs.training(case)
    # As in the peers, weights are where they are trained and nowhere else.
    with use_session_settings(keep_host_values=False):
        session = popxl.Session(built.ir, DEVICE)
    turns = itertools.cycle(_feeds(case, built))
    session.__enter__()
    if case.layers:
        _write_weights(case, session)

    def run(steps: int) -> list[float]:
        return [session.run(feed)[built.output].item() for feed in itertools.islice(turns, steps)]

    return Steps(run, close=lambda: session.__exit__(None, None, None))


def _output_steps(
    session: popxl.Session, feeds: list[dict[Any, Any]], output: popxl.DeviceToHostStream
) -> Steps:
    """``feeds``: what ``run`` is given, in turn; each holds other host arrays."""
    turns = itertools.cycle(feeds)

    def run(steps: int) -> Any:
        for feed in itertools.islice(turns, steps):
            result = session.run(feed)[output]
        return result

    return Steps(run, close=lambda: session.__exit__(None, None, None))


def _feeds(case: Case, built: programs.BuiltProgram) -> list[dict[Any, Any]]:
    return [
        dict(zip(built.inputs, (*batch.inputs, batch.labels), strict=False))
        for batch in data.batches(case)
    ]


def _write_weights(case: Case, session: popxl.Session) -> None:
    """The weights that every framework starts from, into graphs that layers share."""
    weights = data.weights(case)
    named = {programs.weight_name(case, name): name for name in weights}
    found = [v for v in session.ir.main_graph.variables if v.name in named]
    if len(found) < len(named):
        missing = sorted(set(named) - {variable.name for variable in found})
        raise RuntimeError(f"no variables for the weights {', '.join(missing)}")
    session.write_variables_data({v: weights[named[v.name]].reshape(v.shape) for v in found})


def _generation_steps(case: Case) -> Steps:
    built = families.on("popxl", case).program(case)
    session = popxl.Session(built.ir, DEVICE)
    session.__enter__()

    def decode(tokens: Any, position: int) -> Any:
        given = (tokens, np.full(1, position, np.int32))
        return session.run(dict(zip(built.inputs, given, strict=True)))[built.output]

    return generation.steps(case, decode, close=lambda: session.__exit__(None, None, None))


def _inference_steps(case: Case) -> Steps:
    built = programs.network_inference(case)
    session = popxl.Session(built.ir, DEVICE)
    session.__enter__()
    return _output_steps(session, _feeds(case, built), built.output)


def _pass_over_memory(case: Case) -> Steps:
    """Reads one variable and writes another; both stay on the device."""
    ir, result = programs.pass_over_memory(case)
    session = popxl.Session(ir, DEVICE)
    session.__enter__()

    def run(steps: int) -> None:
        for _ in range(steps):
            session.run()

    return Steps(
        run,
        close=lambda: session.__exit__(None, None, None),
        read=lambda: session.get_tensor_data(result),
    )


def _near_empty() -> Steps:
    built = programs.near_empty()
    feeds = [{built.inputs[0]: np.full(1, i, np.float32)} for i in range(data.BATCHES)]
    session = popxl.Session(built.ir, DEVICE)
    session.__enter__()
    return _output_steps(session, feeds, built.output)


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
    if case.family == "generation":
        return _generation_steps(case)
    if case.variant or case.family in NETWORKS:
        return _training_steps(case) if case.training else _inference_steps(case)
    return _pass_over_memory(case)
