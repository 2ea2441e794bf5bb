"""Random programs of torch, whose results and gradients are compared with those of eager torch.

As a program (`python -m tests.python.poptorch.random_programs COUNT SEED [STRATEGY]`) it prints the
programs that differ, as text. Their halves run on devices of their own in the strategies `sharded`
and `pipelined`.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import poptorch

MOST_LINES = 14
# Results this large, or this far from those of float64, are no ground to compare on.
LARGEST = 1e4
STABLE = 5e-5
TOLERANCE = 2e-4


def _words(text: str) -> list[str]:
    return text.split()


# Without what rounding, or the sign of a zero, takes elsewhere: remainders and atan2.
_FUNCTIONS = _words("""
    tanh sigmoid sin cos relu abs neg square floor sign exp2 atan logical_not isnan erf ceil
    trunc log1p sqrt rsqrt reciprocal expm1 round frac t flatten squeeze clone detach contiguous
    positive argsort ravel float int long bool isfinite sgn deg2rad asinh logit
""")
_F_FUNCTIONS = _words("""
    gelu silu softplus leaky_relu hardtanh elu selu mish relu6 hardswish softsign logsigmoid
    hardsigmoid celu tanhshrink
""")
_OPERATORS = ["+", "-", "*", "/", ">", "<", "==", ">=", "<=", "!=", "**"]
_PAIRS = _words("""
    maximum minimum hypot logaddexp ldexp eq lt mul add sub
    fmax fmin true_divide xlogy outer matmul dot logical_and logical_or expand_as view_as
    type_as
""")
_ALONG = _words("""
    sum mean amax amin prod var std logsumexp argmax argmin any all norm cumsum softmax
    log_softmax max min median sort cummax flip unsqueeze cumprod nansum count_nonzero unbind
    argsort squeeze diff logcumsumexp mode
""")
_VIEWS = (
    "{a}[{n}]", "{a}[{n}:]", "{a}[:, {n}]", "{a}[..., :{m}]", "{a}[None]", "{a}[..., None]",
    "{a}[::2]", "{a}[:, ::2]", "{a}.reshape(-1)", "{a}.reshape(2, -1)", "{a}.transpose(0, {n})",
    "{a}.permute(-1, 0)", "{a}.permute(2, 0, 1)", "{a}.expand(2, *{a}.shape)", "{a}.mT",
    "{a}.expand_as({b})", "{a}.unsqueeze({n}).expand(-1, 3, -1)", "{a}.narrow(-1, 0, {m})",
    "{a}.select(-1, {n})", "{a}.diagonal()", "{a}.unfold(-1, 2, 2)", "{a}.view({b}.shape)",
    "{a}.split({m}, -1)[0]", "{a}.chunk(2)[-1]", "{a}.unflatten(-1, (2, 2))", "{a}.movedim(0, -1)",
    "torch.broadcast_to({a}, (2, 3, 4))", "{a}.tril()",
)  # fmt: skip
_READS = (
    "{a}[{i}]", "{a}[:, {i}]", "{a}[..., {i}]", "{a}[{i}, {i}]", "{a}.index_select({n}, {i})",
    "{a}.gather(-1, {i}.expand(*{a}.shape[:-1], 2))", "torch.take({a}, {i})", "{a}.roll({m}, 0)",
    "torch.cat([{a}, {b}])", "torch.cat([{a}, {b}], -1)", "torch.stack([{a}, {b}], {n})",
    "torch.where({c}, {a}, {b})", "torch.where({c}, {a}, {s})", "{a}.masked_fill({c}, {s})",
    "{a}.clamp(-0.5, {s})", "{a}.clamp(min={b})", "torch.lerp({a}, {b}, 0.3)", "{a} @ {b}",
    "torch.addcmul({a}, {b}, {b}, value={s})", "torch.einsum('...i,...i->...', {a}, {b})",
    "F.pad({a}, (1, {m}))", "{a}.repeat(2, 1)", "{a}.repeat_interleave(2, {n})", "{a}.tile(2)",
    "F.linear({a}, {b})", "F.layer_norm({a}, {a}.shape[-1:])", "F.normalize({a}, dim=-1)",
    "torch.cdist({a}, {b})", "F.cosine_similarity({a}, {b}, dim=-1)", "{a}.topk(2)[0]",
    "F.mse_loss({a}, {b})", "F.smooth_l1_loss({a}, {b})", "{a}.scatter(0, {i}[None], {s})",
    "torch.zeros(2, {a}.shape[-1]).index_add(0, {i}, {a})", "{a}.new_full((2,), {s}) + {a}",
    "torch.zeros_like({a}) + {b}", "torch.arange({a}.shape[-1]) * {a}", "{a}.sum() * {b}",
    "torch.bmm({a}, {b})", "F.embedding({i}, {a})", "F.one_hot({i}, 3) * {s}", "{a}.rot90()",
    "torch.tensor([1.0, {s}, 2.0, 0.5]) * {a}", "F.glu({a})", "torch.baddbmm({a}, {b}, {b})",
    "F.softmax({a} @ {b}.mT, -1)", "{a}.type({b}.dtype)", "torch.outer({a}, {b})",
    "F.threshold({a}, 0.1, {s})", "{a}.nan_to_num()", "{a}.to(torch.float16).float()",
    "F.kl_div({a}, {b}.abs())", "F.binary_cross_entropy_with_logits({a}, {b}.sigmoid())",
    "F.cross_entropy({a}, {i})", "F.nll_loss({a}, {i})",
    "torch.bucketize({a}, {b}.ravel().sort()[0])",
)  # fmt: skip
_LAYERS = (
    "F.conv1d({a}, {b})", "F.conv1d({a}, {b}, padding=1)", "F.conv2d({a}, {b}[:, :, :2])",
    "F.conv_transpose1d({a}, {b})", "F.max_pool1d({a}, 2)", "F.avg_pool1d({a}, 2, padding=1)",
    "F.max_pool2d({a}[None], 2, 1)", "F.avg_pool2d({a}[None], 2, ceil_mode=True)",
    "F.adaptive_avg_pool1d({a}, 2)", "F.adaptive_max_pool1d({a}, 2)", "F.lp_pool1d({a}, 2, 2)",
    "F.batch_norm({a}, None, None, training=True)", "F.group_norm({a}, 1)", "F.rms_norm({a}, (4,))",
    "F.instance_norm({a})", "F.local_response_norm({a}, 2)", "F.interpolate({a}, scale_factor=2)",
    "F.interpolate({a}, size=3, mode='linear')",
    "F.pixel_shuffle({a}[:1, None].expand(1, 4, 3, 4), 2)", "F.unfold({a}[None], 2)",
    "F.scaled_dot_product_attention({a}, {a}, {b})", "F.bilinear({a}, {a}, {b})",
    "F.scaled_dot_product_attention({a}, {b}, {b}, is_causal=True)", "F.prelu({a}, p[:1])",
    "F.pad({a}, (1, 1), mode='reflect')", "F.pad({a}, (1, 2), mode='replicate')",
    "F.pairwise_distance({a}, {b})", "F.pad({a}, (1, 1), mode='circular')", "F.pdist({a})",
    "F.huber_loss({a}, {b})", "F.gaussian_nll_loss({a}, {b}, {b}.exp())",
    "F.embedding_bag({i}[None], {a})", "F.triplet_margin_loss({a}, {b}, {b} * 2)",
    "F.soft_margin_loss({a}, {b}.sign())", "F.l1_loss({a}, {b})",
    "torch.einsum('ij,kj->ik', {a}, {b})", "torch.tensordot({a}, {b}, 1)",
    "torch.cumulative_trapezoid({a})", "torch.linalg.vector_norm({a}, {m}, -1)",
    "torch.vander({a})", "torch.cross({a}[:, :3], {b}[:, :3])", "torch.cov({a})",
    "torch.corrcoef({a})", "torch.logaddexp2({a}, {b})", "torch.heaviside({a}, {b})",
    "torch.block_diag({a}, {b})", "torch.cartesian_prod(p, {a})", "torch.diff({a}, n={m})",
    "torch.quantile({a}, 0.3)", "torch.searchsorted({a}.sort(-1)[0], {b})", "torch.trapezoid({a})",
    "torch.renorm({a}, 2, 0, 1.0)", "torch.std_mean({a}, -1)[{n}]", "torch.aminmax({a})[{n}]",
    "torch.complex({a}, {b}).abs()", "torch.fft.rfft({a}).real + 0.1",
    "torch.polar({a}.abs(), {b}).imag", "torch.vmap(lambda r: r * r.sum())({a})",
    "torch.func.vmap(torch.dot)({a}, {b})",
)  # fmt: skip
_WRITES = (
    "{a}.add_({b})", "{a}.mul_({s})", "{a}.mul_({b})", "{a}.sub_({b}, alpha={s})", "{a}.copy_({b})",
    "{a}.div_({s})", "{a}.tanh_()", "{a}.relu_()", "{a}.zero_()", "{a}.clamp_(-1, 1)",
    "{a}.fill_({s})", "{a}.neg_()", "{a}[{n}] = {s}", "{a}[{n}] = {b}", "{a}[:, {n}] += {b}",
    "{a}[..., {n}:] *= {s}", "{a}[{c}] = {s}", "{a}.masked_fill_({c}, {s})", "{a} += {b}",
    "{a} *= {s}", "{a}[{i}] = {s}", "{a}[{i}] = {b}", "{a}.index_add_(0, {i}, {b})", "{a}.t_()",
    "{a}.unsqueeze_({n})", "{a}.squeeze_()", "{a}.transpose_(0, 1)", "{a}.addcmul_({b}, {b})",
    "{a}.scatter_(0, {i}[None], {s})", "{a}.index_fill_(0, {i}, {s})", "{a}.lerp_({b}, 0.25)",
    "self.state.mul_({s}).add_({a})", "self.state[{n}] = {a}", "{a}.cumsum_(-1)", "{a}.pow_(2)",
    "{a}.abs_()", "{a}.clamp_min_({s})", "{a}[{n}:].zero_()", "torch.add({a}, {b}, out={b})",
    "{a}.sqrt_()", "{a}.swapaxes_(0, -1)", "{a}.floor_()",
)  # fmt: skip


class Program(nn.Module):
    """A module whose forward is a text.

    Args:
        lines: Its lines, over what `start` gives.
        halves: Whether its halves are in blocks of their own.
    """

    def __init__(self, lines: list[str], halves: bool = False) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.p = nn.Parameter(torch.randn(4, generator=generator))
        self.q = nn.Parameter(torch.randn(3, 4, generator=generator))
        self.register_buffer("state", torch.linspace(-1, 1, 4))
        self.lines, self.halves = lines, halves

    def forward(self, *inputs: torch.Tensor) -> Any:
        results = self.results_of(inputs)
        return results, poptorch.identity_loss(loss_of(results, self.p), "none")

    def results_of(self, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
        """The last values of the lines."""
        names: dict[str, Any] = {"torch": torch, "F": F, "self": self}
        self._begin_half(0)
        names |= self.start(inputs)
        for index, line in enumerate(self.lines):
            if index == len(self.lines) // 2:
                self._begin_half(1)
            exec(line, names)
        values = [v for k, v in names.items() if k[0] == "v" and isinstance(v, torch.Tensor)]
        return [value.clone() for value in values[-6:]]

    def start(self, inputs: tuple[torch.Tensor, ...]) -> dict[str, torch.Tensor]:
        """The values that the program starts with."""
        x, y, i, c = inputs
        started = {"v0": x * self.q, "v1": y * self.p, "v2": x + 0, "v3": self.p * self.state}
        return {**started, "i": i, "c": c, "p": self.p, "q": self.q}

    def _begin_half(self, number: int) -> None:
        if self.halves:
            poptorch.Block.start(str(number), ipu_id=number)


def loss_of(results: list[torch.Tensor], weight: torch.Tensor) -> torch.Tensor:
    """A sum in which every element counts otherwise, and the weight with a gradient of 0."""
    loss = weight.sum() * 0
    for result in results:
        if result.is_floating_point():
            weights = torch.cos(torch.arange(result.numel(), dtype=result.dtype))
            loss = loss + (result * weights.reshape(result.shape)).sum()
    return loss


def inputs_of(seed: int) -> tuple[torch.Tensor, ...]:
    """Two float inputs, one of indices and one of booleans."""
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randn(3, 4, generator=generator), torch.randn(2, 3, 4, generator=generator)
    return x, y, torch.tensor([2, 0]), torch.rand(3, 4, generator=generator) > 0.5


def random_line(draw: random.Random, names: list[str], number: int) -> str:
    """One line, which need not make sense."""
    a, b = (names[max(draw.randrange(len(names)) for _ in range(2))] for _ in range(2))
    fields = {"a": a, "b": b, "i": "i", "c": draw.choice(["c", "c[0]", f"({a} > 0)"])}
    fields |= {
        "n": draw.randrange(2),
        "m": draw.randrange(1, 3),
        "s": draw.choice([0.5, -1.5, 2, 1]),
    }
    kind = draw.randrange(11)
    if kind == 0:
        return f"v{number} = {a}.{draw.choice(_FUNCTIONS)}()"
    if kind == 1:
        return f"v{number} = F.{draw.choice(_F_FUNCTIONS)}({a})"
    if kind == 2:
        other = draw.choice([b, b, str(fields["s"])])
        sides = [a, other]
        draw.shuffle(sides)
        return f"v{number} = {sides[0]} {draw.choice(_OPERATORS)} {sides[1]}"
    if kind == 3:
        return f"v{number} = torch.{draw.choice(_PAIRS)}({a}, {b})"
    if kind == 4:
        axis = draw.choice(["-1", "0", "1", "(0, -1)", ""])
        keepdim = draw.choice(["", "", ", keepdim=True"]) if axis else ""
        index = draw.choice(["", "", "[0]"])
        return f"v{number} = {a}.{draw.choice(_ALONG)}({axis}{keepdim}){index}"
    if kind in (5, 6):
        return f"v{number} = {draw.choice(_VIEWS).format(**fields)}"
    if kind == 7:
        prefix = draw.choice(["", "", "with torch.no_grad(): "])
        write = draw.choice(_WRITES).format(**fields)
        # Torch passes gradients of the shape before to what is reshaped where it does not see it.
        return write if re.search(r"squeeze_|transpose_|\.t_|swapaxes_", write) else prefix + write
    made = _LAYERS if kind == 8 else _READS
    return f"v{number} = {draw.choice(made).format(**fields)}"


def random_program(
    seed: int,
    module: Program | None = None,
    line_of: Callable[[random.Random, list[str], int], str] = random_line,
) -> list[str]:
    """Lines that eager torch runs and differentiates, with results that are not too large."""
    draw = random.Random(seed)
    lines: list[str] = []
    wanted = draw.randrange(2, MOST_LINES)
    module = module or Program([])
    inputs = tuple(t.to(module.p.dtype) if t.is_floating_point() else t for t in inputs_of(seed))
    names = {"torch": torch, "F": F, "self": module, **module.start(inputs)}
    for number in range(4, 4 + 8 * wanted):
        known = [k for k, v in names.items() if k[0] in "vpq" and isinstance(v, torch.Tensor)]
        line = line_of(draw, known, number)
        if _writes_elements_twice(line, names):
            continue
        try:
            exec(line, names)
        except Exception:
            if not line.startswith(f"v{number} = "):
                break  # it may have written something
            continue
        lines.append(line)
        if not _is_sound(names):
            lines.pop()
            if not line.startswith(f"v{number} = "):
                break
            del names[f"v{number}"]
        if len(lines) == wanted:
            break
    return lines


def _writes_elements_twice(line: str, names: dict[str, Any]) -> bool:
    """Whether a line writes a tensor of which elements share memory: torch does not say what."""
    target = re.match(r"(?:with torch.no_grad\(\): )?(v\d+)[^=]*(?:_\(| [+*]?= )", line)
    if target is None or target[1] not in names:
        return False
    tensor = names[target[1]]
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return any(size > 1 and stride == 0 for size, stride in pairs)


def _is_sound(names: dict[str, Any]) -> bool:
    """Whether all values are tensors that can be compared."""
    for value in (v for k, v in names.items() if k[0] == "v"):
        if not isinstance(value, torch.Tensor) or not 0 < value.numel() < 500:
            return False
        try:
            if not bool((value.detach().double().abs() < LARGEST).all()):
                return False
        except RuntimeError:  # a view that a write has made unusable
            return False
    return True


Outcome = tuple[list[torch.Tensor], dict[str, torch.Tensor]]


def eager_outcome(program: Program, inputs: tuple[torch.Tensor, ...]) -> Outcome:
    """Results, and parameters and buffers after a step of SGD."""
    results, loss = program(*(t.clone() for t in inputs))
    loss.backward()
    torch.optim.SGD(program.parameters(), lr=0.1).step()
    return [t.detach() for t in results], dict(program.state_dict())


def difference(wanted: Outcome, given: Outcome, tolerance: float) -> str:
    """Where two outcomes differ; nothing where they do not."""
    pairs: list[tuple[str, torch.Tensor, torch.Tensor]] = [
        (f"result {k}", a, b) for k, (a, b) in enumerate(zip(wanted[0], given[0], strict=True))
    ]
    pairs += [(name, value, given[1][name]) for name, value in wanted[1].items()]
    for name, a, b in pairs:
        if a.shape != b.shape:
            return f"{name} has the shape {list(b.shape)}, wanted {list(a.shape)}"
        largest = max(1.0, float(a.double().abs().max()))
        worst = float((a.double() - b.double()).abs().max())
        if not worst <= tolerance * largest:
            return f"{name} differs by {worst:.1e}\nwanted {a.tolist()}\ngiven {b.tolist()}"
    return ""


# What programs refuse: losses that the final one does not depend on, parameters that change their
# shape; and what only torch's rules for tensors without values do not allow.
REFUSED = (
    "Multiple independent losses found in graph",
    "Use the form that returns a view",
    "cannot be safely cast to type",
    "do not allow the output views to be modified inplace",
    "and read in stage 0, which works on another micro-batch then",
)
STRATEGIES: dict[str, Any] = {
    "sharded": poptorch.ShardedExecution,
    "pipelined": poptorch.PipelinedExecution,
}
MICRO_BATCHES = {"plain": 1, "sharded": 1, "pipelined": 4}


def options_of(strategy: str) -> poptorch.Options:
    """Options for a program in one block, or in two."""
    options = poptorch.Options().showCompilationProgressBar(False)
    options.Training.gradientAccumulation(MICRO_BATCHES[strategy])
    if strategy in STRATEGIES:
        options.setExecutionStrategy(STRATEGIES[strategy]("0", "1"))
    return options


def compare(lines: list[str], seed: int, strategy: str = "plain") -> str | None:
    """Compare a program; None: there is nothing to compare; an empty text: it agrees.

    Several micro-batches are the same one, whose mean is that of one.
    """
    inputs = inputs_of(seed)
    if MICRO_BATCHES[strategy] > 1:
        # What one micro-batch leaves to the next is not the mean of anything.
        lines = [line for line in lines if "self.state" not in line and "no_grad" not in line]
    doubled = tuple(t.double() if t.is_floating_point() else t for t in inputs)
    try:
        wanted = eager_outcome(Program(lines), inputs)
        exact = eager_outcome(Program(lines).double(), doubled)
    except Exception:
        return None
    if not all(bool(t.double().isfinite().all()) for t in (*wanted[0], *wanted[1].values())):
        return None
    if difference(wanted, exact, STABLE):
        return None
    program = Program(lines, strategy in STRATEGIES and bool(lines))
    optimizer = torch.optim.SGD(program.parameters(), lr=0.1)
    trained = poptorch.trainingModel(program, options_of(strategy), optimizer)
    try:
        results, _ = trained(*(torch.cat([one] * MICRO_BATCHES[strategy]) for one in inputs))
        trained.copyWeightsToHost()
        return difference(wanted, (results, dict(program.state_dict())), TOLERANCE)
    except Exception as error:
        is_refused = any(text in str(error) for text in REFUSED)
        return None if is_refused else f"{type(error).__name__}: {error}"
    finally:
        trained.destroy()


def shortened(lines: list[str], seed: int, strategy: str) -> list[str]:
    """The lines without those that a difference does not need."""
    for index in reversed(range(len(lines))):
        fewer = lines[:index] + lines[index + 1 :]
        if compare(fewer, seed, strategy):
            lines = fewer
    return lines


def checked(count: int, first: int, strategy: str = "plain") -> Iterator[tuple[int, str | None]]:
    """The outcome of each of some programs, by seed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(first, first + count):
            yield seed, compare(random_program(seed), seed, strategy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("strategy", nargs="?", default="plain", choices=MICRO_BATCHES)
    arguments = parser.parse_args()
    strategy = arguments.strategy
    poptorch.setLogLevel("ERR")
    compared, differing = 0, 0
    for seed, outcome in checked(arguments.count, arguments.seed, strategy):
        compared += outcome is not None
        if outcome:
            differing += 1
            lines = shortened(random_program(seed), seed, strategy)
            text = "\n    ".join(lines)
            print(f"seed {seed}: {compare(lines, seed, strategy)}\n    {text}", flush=True)
    print(f"{differing} of {compared} programs differ")
    sys.exit(differing > 0)


if __name__ == "__main__":
    main()
