"""Names of the tensors of a traced model, as anchors and messages have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import torch

from poptorch._trace.recording import Node

# Operators whose type is another word than their own name in camel case.
_TYPES = {
    "linear": "Gemm",
    "addmm": "Gemm",
    "mm": "MatMul",
    "bmm": "MatMul",
    "matmul": "MatMul",
    "mv": "MatMul",
    "dot": "MatMul",
    "convolution": "Conv",
    "conv1d": "Conv",
    "conv2d": "Conv",
    "conv3d": "Conv",
    "embedding": "Gather",
    "index_select": "Gather",
    "batch_norm": "BatchNormalization",
    "layer_norm": "LayerNormalization",
    "group_norm": "GroupNormalization",
    "max_pool1d": "MaxPool",
    "max_pool2d": "MaxPool",
    "max_pool3d": "MaxPool",
    "avg_pool1d": "AveragePool",
    "avg_pool2d": "AveragePool",
    "avg_pool3d": "AveragePool",
    "sum": "ReduceSum",
    "mean": "ReduceMean",
    "prod": "ReduceProd",
    "amax": "ReduceMax",
    "amin": "ReduceMin",
    "cat": "Concat",
    "permute": "Transpose",
    "t": "Transpose",
    "view": "Reshape",
    "rsub": "Sub",
    "identity_loss": "IdentityLoss",
    "mse_loss": "MseLoss",
    "nll_loss": "NllLoss",
    "cross_entropy_loss": "NllLoss",
    "recomputation_checkpoint": "Checkpoint",
}


def operator_type(name: str) -> str:
    """Name the type of an operator.

    Args:
        name: The operator with namespace, such as `aten::add_`.

    Returns:
        Such as `Add`.
    """
    plain = name.partition("::")[2].strip("_")
    return _TYPES.get(plain) or "".join(
        part[:1].upper() + part[1:] for part in plain.split("_") if part
    )


def names_of_tensors(
    nodes: Iterable[Node], inputs: Sequence[torch.Tensor], held: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Name the tensors of a trace.

    Args:
        nodes: The calls of operators, in order.
        inputs: The meta tensors of the inputs.
        held: The meta tensors of parameters and buffers by name.

    Returns:
        Meta tensors by name: `input`, `input/1`, ...; the names of parameters and buffers; and
        `SCOPE/TYPE:NUMBER` for what operators return, in which a name that was given already gets
        `/1`, `/2` and so on.
    """
    found = {f"input/{i}" if i else "input": meta for i, meta in enumerate(inputs)}
    found.update(held)
    given: Counter[str] = Counter()
    for node in nodes:
        prefix = f"{node.scope}/" if node.scope else ""
        for number, meta in enumerate(node.outputs):
            name = f"{prefix}{operator_type(node.name)}:{number}"
            repetition = given[name]
            given[name] += 1
            found[f"{name}/{repetition}" if repetition else name] = meta
    return found
