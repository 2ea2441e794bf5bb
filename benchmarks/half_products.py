"""Matrix products of half precision beside float32: `python -m benchmarks.half_products`.

`few rows`: 8 rows by weights of 1,024 x 1,024, in float16 and bfloat16; the weights are read in
every product, and halves are half of the bytes. They are many matrices in turn, more than the
caches hold, as the layers of a model are. `square`: 1,024 x 1,024 by 1,024 x 1,024 in bfloat16,
where the arithmetic bounds it. A run is a chain of products; blocks of both dtypes take turns, and
the ratio is the median over rounds of float32's time over the other's.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass

import numpy as np

import popxl
from benchmarks.parallel import seconds_and_cores
from popxl import ops

WIDTH = 1024


@dataclass(frozen=True)
class Product:
    """Rows by square matrices of WIDTH; a run takes each of these once."""

    name: str
    rows: int
    matrices: int


FEW_ROWS = Product("few rows", rows=8, matrices=48)
SQUARE = Product("square", rows=WIDTH, matrices=4)
ROWS = (
    (FEW_ROWS, popxl.float16),
    (FEW_ROWS, popxl.bfloat16),
    (SQUARE, popxl.bfloat16),
)


def session_of(product: Product, dtype: popxl.dtype) -> popxl.Session:
    """x becomes x W for each matrix W in turn; their scale keeps the size of x."""
    rng = np.random.default_rng(0)
    ir = popxl.Ir()
    with ir.main_graph:
        x: popxl.Tensor = popxl.variable(rng.normal(size=(product.rows, WIDTH)), dtype)
        values = rng.normal(0, WIDTH**-0.5, (WIDTH, WIDTH))
        for _ in range(product.matrices):
            x = x @ popxl.variable(values, dtype)
        ops.host_store(popxl.d2h_stream(x.shape, dtype), x)
    return popxl.Session(ir, "cpu")


def microseconds(session: popxl.Session, product: Product, seconds: float) -> float:
    """Of one product."""
    per_run, _ = seconds_and_cores(popxl.Session.run, session, seconds)
    return per_run * 1e6 / product.matrices


def compare(product: Product, dtype: popxl.dtype, rounds: int, seconds: float) -> None:
    with session_of(product, popxl.float32) as single, session_of(product, dtype) as half:
        for session in (single, half):
            session.run()
        times = [
            (microseconds(single, product, seconds), microseconds(half, product, seconds))
            for _ in range(rounds)
        ]
    of_single, of_half = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(a / b for a, b in times)
    print(f"{product.name:9} {dtype.name:9} {of_half:9.1f} {of_single:11.1f}  {ratio:5.2f}x")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.half_products", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.3, help="of a block")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: at least 1")
    print("product   dtype            us  float32 us  float32 / dtype")
    for product, dtype in ROWS:
        compare(product, dtype, options.rounds, options.seconds)


if __name__ == "__main__":
    main()
