"""Runs every model of transformers and torchvision in a small form, beside eager torch.

As a program (`python -m tests.python.poptorch.model_sweep --help`) it prints what became of each
model: whether its results and the gradients of one step are those of eager torch, or the reason why
not. Models that are too large in their smallest form known here, or that eager torch cannot run
with the inputs made here, are not counted.
"""

from __future__ import annotations

import argparse
import copy
import inspect
import signal
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_MAPPING

import poptorch
from tests.python.poptorch.model_packages import torchvision, transformers
from tests.python.poptorch.model_zoo import without_dropout, words

MOST_PARAMETERS = 60_000_000
SECONDS = 200
TOLERANCE = 1e-3
GRADIENT_TOLERANCE = 2e-2
# How much further from eager torch than another order of its own sums a gradient may be.
ROUNDING = 8

# Small sizes by the names of attributes of configurations.
_SIZES: dict[int, str] = {
    128: "vocab_size",
    32: "hidden_size d_model n_embd dim embed_dim embedding_size emb_dim encoder_hidden_size "
    "word_embed_proj_dim projection_dim image_size kv_lora_rank q_lora_rank",
    64: "intermediate_size ffn_dim encoder_ffn_dim decoder_ffn_dim d_ff n_inner hidden_dim "
    "moe_intermediate_size shared_expert_intermediate_size dim_feedforward "
    "max_position_embeddings n_positions max_source_positions max_target_positions",
    8: "head_dim d_kv patch_size qk_rope_head_dim qk_nope_head_dim v_head_dim",
    4: "num_attention_heads n_head n_heads num_heads encoder_attention_heads "
    "decoder_attention_heads num_local_experts num_experts n_routed_experts",
    2: "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers "
    "num_encoder_layers num_decoder_layers depth num_blocks num_key_value_heads num_kv_heads "
    "num_experts_per_tok eos_token_id",
    1: "bos_token_id decoder_start_token_id",
    0: "pad_token_id",
}
SMALL = {name: size for size, names in _SIZES.items() for name in names.split()}

Named = dict[str, torch.Tensor]


@dataclass
class Report:
    """What became of a model; `reason` is empty where it agrees."""

    name: str
    counts: bool
    reason: str = ""


class NotCountedError(Exception):
    """The model says nothing about poptorch."""


def small_config(config_class: Any) -> Any:
    """A configuration with small sizes and without dropout."""
    default = config_class()
    sizes: dict[str, Any] = {}
    for name, value in vars(default).items():
        if name in SMALL and (type(value) is int or name.endswith("token_id")):
            sizes[name] = SMALL[name]
        elif name.endswith("_config") and hasattr(value, "to_dict"):
            sizes[name] = small_config(type(value)).to_dict()
    if "kv_lora_rank" in sizes:
        # Keys and values of all heads are made of one row.
        sizes["num_key_value_heads"] = SMALL["num_attention_heads"]
    config = without_dropout(config_class(**sizes))
    config.use_cache = False
    return config


def inputs_of(model: Any, config: Any, seed: int) -> Named:
    """What a model of transformers is called with, by the names of its arguments."""
    generator = torch.Generator().manual_seed(seed)
    names = inspect.signature(model.forward).parameters
    main = getattr(model, "main_input_name", "input_ids")
    inputs: Named = {}
    if main == "pixel_values" or ("pixel_values" in names and hasattr(config, "text_config")):
        # Norms over batches want more than one place of the last feature map.
        size = getattr(getattr(config, "vision_config", config), "image_size", 64)
        size = size if isinstance(size, int) else SMALL["image_size"]
        channels = getattr(config, "num_channels", 3) or 3
        inputs["pixel_values"] = torch.randn(4, channels, size, size, generator=generator)
    if "input_ids" in names and main != "pixel_values":
        inputs["input_ids"] = words(2, generator)
    if main == "input_features":
        bins = getattr(config, "num_mel_bins", 80)
        inputs["input_features"] = torch.randn(2, 128, bins, generator=generator)
    if main == "input_values":
        inputs["input_values"] = torch.randn(2, 4000, generator=generator)
    if "attention_mask" in names and "input_ids" in inputs:
        mask = torch.ones(2, inputs["input_ids"].shape[1], dtype=torch.int64)
        mask[1, -4:] = 0
        inputs["attention_mask"] = mask
    if "decoder_input_ids" in names and getattr(config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = words(2, generator, 8)
    return inputs


def tensors_of(results: Any) -> list[torch.Tensor]:
    """The tensors of nested results, in order."""
    if isinstance(results, torch.Tensor):
        return [results]
    items = results.values() if isinstance(results, dict) else results
    nested = isinstance(results, (dict, list, tuple))
    return [tensor for item in items for tensor in tensors_of(item)] if nested else []


class Results(nn.Module):
    """A model whose results are a tuple of tensors."""

    def __init__(self, model: nn.Module, names: list[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def results(self, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """Call the model, with names if there are any."""
        if not self.names:
            return tuple(tensors_of(self.model(*inputs)))
        return tuple(tensors_of(self.model(**dict(zip(self.names, inputs, strict=True)))))

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.results(inputs)


class Loss(Results):
    """A loss that each element of the results has another part in: norms make sums constant."""

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        loss = torch.zeros(())
        for result in self.results(inputs):
            if result.is_floating_point() and result.numel():
                weights = torch.cos(torch.arange(result.numel()) * 1.7).reshape(result.shape)
                loss = loss + (result.float() ** 2).mean() + (result.float() * weights).sum()
        return poptorch.identity_loss(loss, "none")


def eager_step(module: Loss, inputs: Named, seed: int = 0) -> tuple[float, Named]:
    """The loss of eager torch, and the gradients."""
    torch.manual_seed(seed)
    np.random.seed(seed)
    module.zero_grad()
    loss = module(*inputs.values())
    loss.backward()
    return float(loss.detach()), {
        name: parameter.grad.clone()
        for name, parameter in module.named_parameters()
        if parameter.grad is not None and parameter.numel()
    }


def check_results(model: nn.Module, inputs: Named, names: list[str]) -> None:
    """Compares the results of inference."""
    module = Results(model.eval(), names)
    try:
        with torch.no_grad():
            wanted, again = module(*inputs.values()), module(*inputs.values())
    except Exception as error:
        raise NotCountedError(f"eager: {type(error).__name__}: {error}") from error
    if any(not torch.equal(a, b) for a, b in zip(wanted, again, strict=True)):
        raise NotCountedError("its results are random")
    trained = poptorch.inferenceModel(module, _options())
    given = trained(*inputs.values())
    trained.destroy()
    for index, (a, b) in enumerate(zip(tensors_of(given), wanted, strict=True)):
        difference = float((a - b).float().abs().max()) if b.numel() else 0.0
        if b.numel() and difference > TOLERANCE * float(b.float().abs().max()):
            raise AssertionError(f"result {index} differs by {difference:.1e}")


def check_step(model: nn.Module, inputs: Named, names: list[str]) -> None:
    """Compares the loss and the gradients of a step, unless training is random."""
    module = Loss(model.train(), names)
    before = copy.deepcopy(module.state_dict())
    loss, wanted = eager_step(module, inputs)
    module.load_state_dict(before)
    if eager_step(module, inputs, 1)[0] != loss:
        return
    module.load_state_dict(before)
    with torch.backends.mkldnn.flags(enabled=False):
        other_loss, other = eager_step(module, inputs)
    module.load_state_dict(before)
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    trained = poptorch.trainingModel(module, _options(), optimizer=optimizer)
    given = float(tensors_of(trained(*inputs.values()))[0])
    trained.copyWeightsToHost()
    trained.destroy()
    if abs(given - loss) > TOLERANCE * abs(loss) + ROUNDING * abs(other_loss - loss):
        raise AssertionError(f"the loss is {given}, wanted {loss}")
    largest = max(float(gradient.abs().max()) for gradient in wanted.values())
    scales = {name: float(g.abs().max()) + 1e-3 * largest for name, g in wanted.items()}
    rounding = max(float((other[n] - g).abs().max()) / scales[n] for n, g in wanted.items())
    after = dict(module.named_parameters())
    for name, gradient in wanted.items():
        difference = float((before[name] - after[name].detach() - gradient).abs().max())
        if difference > (GRADIENT_TOLERANCE + ROUNDING * rounding) * scales[name]:
            raise AssertionError(f"the gradient of {name} differs by {difference:.1e}")


def _options() -> poptorch.Options:
    return poptorch.Options().showCompilationProgressBar(False)


Case = tuple[nn.Module, Named, list[str]]


def of_transformers(name: str, seed: int) -> Case:
    """A small model of transformers by the name of its type."""
    try:
        model_class: Any = MODEL_MAPPING[CONFIG_MAPPING[name]]
        model_class = model_class[0] if isinstance(model_class, (list, tuple)) else model_class
        config = small_config(CONFIG_MAPPING[name])
        with torch.device("meta"):
            parts = model_class(copy.deepcopy(config)).parameters()
        _check_size(sum(parameter.numel() for parameter in parts))
        torch.manual_seed(seed)
        model = model_class(config)
        inputs = inputs_of(model, config, seed)
    except NotCountedError:
        raise
    except Exception as error:
        raise NotCountedError(f"eager: {type(error).__name__}: {error}") from error
    for parameter in model.parameters():
        if parameter.numel() > 1 and not parameter.detach().any():
            nn.init.normal_(parameter, std=0.02)  # zeros leave gradients out
    return model, inputs, list(inputs)


def of_torchvision(name: str, seed: int) -> Case:
    """A model of torchvision with random weights, and small pictures or films."""
    detects = any(part in name for part in ("rcnn", "ssd", "retina", "fcos"))
    if detects or name.startswith(("quantized", "raft")):
        raise NotCountedError("it has compiled operators, or other inputs than pictures")
    kwargs: dict[str, Any] = {}
    if any(part in name for part in ("fcn", "deeplab", "lraspp")):
        kwargs["weights_backbone"] = None
    _check_size(next(iter(torchvision.models.get_model_weights(name))).meta["num_params"])
    torch.manual_seed(seed)
    model = torchvision.models.get_model(name, weights=None, **kwargs)
    for part in model.modules():
        if isinstance(part, nn.Dropout) or type(part).__name__ == "StochasticDepth":
            part.p = 0.0
    fixed = ("vit_", "maxvit", "mvit")
    size = 224 if any(part in name for part in fixed) else 299 if "inception" in name else 64
    film = any(part in name for part in ("3d", "mc3", "r2plus1d", "mvit"))
    shape = (1, 3, 16, size, size) if film else (1 if size == 224 else 4, 3, size, size)
    return model, {"x": torch.randn(shape)}, []


def _check_size(parameters: int) -> None:
    if parameters > MOST_PARAMETERS:
        raise NotCountedError(f"it has {parameters:,} parameters in its small form")


@contextmanager
def _time_limit() -> Iterator[None]:
    def end(*_: Any) -> None:
        raise TimeoutError(f"it took more than {SECONDS} s")

    signal.signal(signal.SIGALRM, end)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)


def _check(case: Case) -> None:
    check_results(*case)
    check_step(*case)


def report_of(name: str, make: Callable[[str, int], Case]) -> Report:
    """Find out whether a model agrees with eager torch, with the values of one of two seeds."""
    try:
        with _time_limit():
            try:
                _check(make(name, 0))
            except AssertionError:
                # A value that rounding takes over the kink of an activation has another gradient.
                _check(make(name, 1))
    except NotCountedError as error:
        return Report(name, False, str(error))
    except Exception as error:
        return Report(name, True, f"{type(error).__name__}: {error}")
    return Report(name, True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", choices=("transformers", "torchvision"))
    parser.add_argument("names", nargs="*", help="types of models; none: all")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    all_names, make = list(CONFIG_MAPPING), of_transformers
    if arguments.package == "torchvision":
        all_names, make = torchvision.models.list_models(), of_torchvision
    counts: Counter[str] = Counter()
    for name in arguments.names or all_names:
        report = report_of(name, make)
        outcome = "not counted" if not report.counts else "differs" if report.reason else "agrees"
        counts[outcome] += 1
        print(f"{name}: {outcome} {' '.join(report.reason.split())[:400]}".rstrip(), flush=True)
    print(f"{counts['agrees']} of {counts['agrees'] + counts['differs']} models agree")


if __name__ == "__main__":
    main()
