"""The ops: functions that add computations to the current graph.

A function creates its op in the graph of the innermost `with graph:` and raises RuntimeError
outside of one. It returns tensors, which have values only while a session runs. Shapes are checked
when the op is made, dtypes as far as the result depends on them: operands that broadcast have one
dtype, because there is no promotion. What cannot be computed, above all for its dtype, is refused
when a session is made, if it takes part, by a `popart.popart_exception` that names the op and the
line of the program.

A name that ends in an underscore works in place: it writes its first tensor, or returns an alias of
it. The order of such an op among others that use the tensor is fixed only by data or by
`popxl.in_sequence`.

Several submodules have the name of a function; `popxl.ops.call` is the function, and `from
popxl.ops.call import CallSiteInfo` reads the submodule.
"""

import sys
from typing import TYPE_CHECKING

from pando.missing_names import missing_names
from popxl.ops import code_copy as code_copy
from popxl.ops import collectives, var_updates
from popxl.ops import random_seed as random_seed
from popxl.ops import utils as utils
from popxl.ops.activation import (
    gelu,
    gelu_,
    geluerf,
    geluerf_,
    relu,
    relu_,
    softmax,
    swish,
    swish_,
)
from popxl.ops.attention import scaled_dot_product_attention
from popxl.ops.binary import (
    add,
    add_,
    div,
    fmod,
    maximum,
    mul,
    pow,
    scaled_add,
    scaled_add_,
    sub,
)
from popxl.ops.call import CallSiteInfo, call, call_with_info
from popxl.ops.cast import cast, pow2scale_cast_from_fp8, pow2scale_cast_to_fp8
from popxl.ops.conditional import ConditionalSiteInfo, conditional, conditional_with_info
from popxl.ops.conv import (
    PadType,
    conv,
    conv_pow2scaled,
    conv_transpose,
    conv_transpose_pow2scaled,
)
from popxl.ops.ctc import ctc_beam_search, ctc_loss
from popxl.ops.custom import custom
from popxl.ops.gather import gather, groupedgather, onehot, scatter, tied_gather
from popxl.ops.grouped_matmul import grouped_matmul, grouped_outer
from popxl.ops.host import host_load, host_store
from popxl.ops.host_call import host_call
from popxl.ops.init import init
from popxl.ops.lamb import lamb_square
from popxl.ops.linear_algebra import cholesky, triangular_solve
from popxl.ops.logic import equal, greater, logical_and, logical_not, logical_or, where
from popxl.ops.matmul import matmul, matmul_pow2scaled
from popxl.ops.negative_log_likelihood import nll_loss, nll_loss_with_softmax_grad
from popxl.ops.normalization import (
    batch_norm_inference,
    batch_norm_training,
    group_norm,
    layer_norm,
)
from popxl.ops.ordering import (
    argmax,
    argmin,
    argsort,
    bucketize,
    cumprod,
    cumsum,
    histogram,
    sort,
    topk,
)
from popxl.ops.padding import fold, pad, unfold
from popxl.ops.placement import io_tile_copy, ipu_copy, remote_code_load
from popxl.ops.pooling import adaptive_average_pool, adaptive_max_pool, average_pool, max_pool
from popxl.ops.print_tensor import print_tensor
from popxl.ops.random import dropout, random_normal, random_uniform, shaped_dropout
from popxl.ops.random_seed import split_random_seed
from popxl.ops.recurrent import RecurrentWeights, gru, lstm, rnn
from popxl.ops.reduction import (
    l1,
    l2,
    logsum,
    logsumexp,
    max,
    mean,
    median,
    min,
    prod,
    sum,
    sumsquare,
)
from popxl.ops.remote import remote_load, remote_load_, remote_store
from popxl.ops.repeat import repeat, repeat_with_info
from popxl.ops.resample import interpolate, roi_align
from popxl.ops.scatter_reduce import scatter_max, scatter_min, scatter_reduce
from popxl.ops.shape import (
    concat,
    concat_,
    flatten,
    flatten_,
    reshape,
    reshape_,
    split,
    squeeze,
    transpose,
    transpose_,
)
from popxl.ops.slicing import (
    dynamic_slice,
    dynamic_update,
    dynamic_update_,
    slice,
    slice_,
    subsample,
)
from popxl.ops.unary import (
    abs,
    atan,
    ceil,
    clamp,
    clip,
    cos,
    detach,
    detach_,
    erf,
    erfc,
    exp,
    exp_,
    expm1,
    identity,
    increment_mod,
    increment_mod_,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    negate,
    rename,
    sign,
    sin,
    sqrt,
    tanh,
)
from popxl.ops.unary import floor as floor
from popxl.ops.unary import log2 as log2
from popxl.ops.while_loop import while_loop
from popxl.tensor_operators import register_ops

# floor and log2 are not part of `from popxl.ops import *`.
__all__ = [
    "CallSiteInfo",
    "ConditionalSiteInfo",
    "PadType",
    "RecurrentWeights",
    "abs",
    "adaptive_average_pool",
    "adaptive_max_pool",
    "add",
    "add_",
    "argmax",
    "argmin",
    "argsort",
    "atan",
    "average_pool",
    "batch_norm_inference",
    "batch_norm_training",
    "bucketize",
    "call",
    "call_with_info",
    "cast",
    "ceil",
    "cholesky",
    "clamp",
    "clip",
    "collectives",
    "concat",
    "concat_",
    "conditional",
    "conditional_with_info",
    "conv",
    "conv_pow2scaled",
    "conv_transpose",
    "conv_transpose_pow2scaled",
    "cos",
    "ctc_beam_search",
    "ctc_loss",
    "cumprod",
    "cumsum",
    "custom",
    "detach",
    "detach_",
    "div",
    "dropout",
    "dynamic_slice",
    "dynamic_update",
    "dynamic_update_",
    "equal",
    "erf",
    "erfc",
    "exp",
    "exp_",
    "expm1",
    "flatten",
    "flatten_",
    "fmod",
    "fold",
    "gather",
    "gelu",
    "gelu_",
    "geluerf",
    "geluerf_",
    "greater",
    "group_norm",
    "groupedgather",
    "grouped_matmul",
    "grouped_outer",
    "gru",
    "histogram",
    "host_call",
    "host_load",
    "host_store",
    "identity",
    "increment_mod",
    "increment_mod_",
    "init",
    "interpolate",
    "io_tile_copy",
    "ipu_copy",
    "isfinite",
    "isinf",
    "isnan",
    "l1",
    "l2",
    "lamb_square",
    "layer_norm",
    "log",
    "log1p",
    "logical_and",
    "logical_not",
    "logical_or",
    "logsum",
    "logsumexp",
    "lstm",
    "matmul",
    "matmul_pow2scaled",
    "max",
    "max_pool",
    "maximum",
    "mean",
    "median",
    "min",
    "mul",
    "negate",
    "nll_loss",
    "nll_loss_with_softmax_grad",
    "onehot",
    "pad",
    "pow",
    "pow2scale_cast_from_fp8",
    "pow2scale_cast_to_fp8",
    "print_tensor",
    "prod",
    "random_normal",
    "random_uniform",
    "relu",
    "relu_",
    "remote_code_load",
    "remote_load",
    "remote_load_",
    "remote_store",
    "rename",
    "repeat",
    "repeat_with_info",
    "reshape",
    "reshape_",
    "rnn",
    "roi_align",
    "scaled_add",
    "scaled_add_",
    "scaled_dot_product_attention",
    "scatter",
    "scatter_max",
    "scatter_min",
    "scatter_reduce",
    "shaped_dropout",
    "sign",
    "sin",
    "slice",
    "slice_",
    "softmax",
    "sort",
    "split",
    "split_random_seed",
    "sqrt",
    "squeeze",
    "sub",
    "subsample",
    "sum",
    "sumsquare",
    "swish",
    "swish_",
    "tanh",
    "tied_gather",
    "topk",
    "transpose",
    "transpose_",
    "triangular_solve",
    "unfold",
    "var_updates",
    "where",
    "while_loop",
]

# Names of NumPy and of neighbouring packages.
_INSTEAD = {
    "cross_entropy": "it is popxl_addons.cross_entropy; ops.nll_loss takes probabilities",
    "Call": "ops.call calls a graph",
    "less": "ops.greater with its operands exchanged",
    "not_equal": "ops.logical_not of ops.equal",
    "sigmoid": "ops.swish and ops.gelu are there; 1 / (1 + ops.exp(-x)) is the sigmoid",
    "zeros": "ops.init(shape, dtype, name, 'zero')",
    "scaled_sub": "ops.scaled_add with a negative factor",
    "all_reduce": "ops.collectives has the collectives",
    "replicated_all_reduce": "it is ops.collectives.replicated_all_reduce",
    "replicated_all_gather": "it is ops.collectives.replicated_all_gather",
    "replicated_reduce_scatter": "it is ops.collectives.replicated_reduce_scatter",
    "accumulate_": "it is ops.var_updates.accumulate_",
    "adam_updater": "it is ops.var_updates.adam_updater",
}

register_ops(sys.modules[__name__])

if not TYPE_CHECKING:
    __getattr__ = missing_names(__name__, _INSTEAD)
