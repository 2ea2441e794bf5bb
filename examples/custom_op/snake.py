"""Goes down the slope of an op of one's own: `python snake.py libsnake.so`."""

import sys

import numpy as np

import pando
import popxl
from popxl import ops


def main(path: str) -> None:
    print(pando.load_library(path))
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(np.float32(3.0), name="x")
        network = ir.create_graph(lambda t: ops.custom("Snake", [t], {"a": 2.0}), x)
        gradients = popxl.transforms.autodiff(network)
        call = ops.call_with_info(network, x)
        one = popxl.constant(np.float32(1.0))
        (slope,) = ops.call(gradients.graph, one, inputs_dict=gradients.inputs_dict(call))
        ops.scaled_add_(x, slope, b=-0.1)
    with popxl.Session(ir) as session:
        for _ in range(20):
            session.run()
    print("x became", session.get_tensor_data(x))


if __name__ == "__main__":
    main(sys.argv[1])
