"""Small forms of well-known models with random weights, and what they are trained with."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

import poptorch
from tests.python.poptorch.model_packages import torchvision, transformers

Inputs = tuple[torch.Tensor, ...]
WORDS = 96
LENGTH = 16


class Trained(torch.nn.Module):
    """A model of transformers that is called with named inputs and returns its loss first."""

    def __init__(self, model: torch.nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        output = self.model(**dict(zip(self.names, inputs, strict=True)))
        loss = output.loss
        if poptorch.isRunningOnIpu():
            loss = poptorch.identity_loss(loss, "none")
        return loss, output.logits


def without_dropout(config: Any) -> Any:
    """Set all rates of dropout of a configuration, and of those within it, to 0."""
    for name, value in list(vars(config).items()):
        if isinstance(value, float) and ("drop" in name or name.endswith("pdrop")):
            setattr(config, name, 0.0)
        elif hasattr(value, "to_dict"):
            without_dropout(value)
    return config


def words(batch: int, generator: torch.Generator, length: int = LENGTH) -> torch.Tensor:
    """Random numbers of words, none of which is special."""
    return torch.randint(4, WORDS, (batch, length), generator=generator)


_ENCODER = {
    "vocab_size": WORDS,
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "max_position_embeddings": 40,
}


def bert() -> torch.nn.Module:
    config = without_dropout(transformers.BertConfig(**_ENCODER))
    return transformers.BertForSequenceClassification(config)


def roberta() -> torch.nn.Module:
    config = without_dropout(transformers.RobertaConfig(**_ENCODER))
    return transformers.RobertaForSequenceClassification(config)


def distilbert() -> torch.nn.Module:
    config = transformers.DistilBertConfig(
        vocab_size=WORDS, dim=48, n_layers=2, n_heads=4, hidden_dim=96, max_position_embeddings=40
    )
    return transformers.DistilBertForSequenceClassification(without_dropout(config))


def gpt2() -> torch.nn.Module:
    config = transformers.GPT2Config(
        vocab_size=WORDS, n_embd=48, n_layer=2, n_head=4, n_positions=40
    )
    return transformers.GPT2LMHeadModel(without_dropout(config))


def llama() -> torch.nn.Module:
    config = transformers.LlamaConfig(**_ENCODER, num_key_value_heads=2, use_cache=False)
    return transformers.LlamaForCausalLM(without_dropout(config))


def mixtral() -> torch.nn.Module:
    """Layers of experts, of which each word asks two."""
    config = transformers.MixtralConfig(
        **_ENCODER, num_key_value_heads=2, num_local_experts=4, use_cache=False
    )
    return transformers.MixtralForCausalLM(without_dropout(config))


def t5() -> torch.nn.Module:
    config = transformers.T5Config(
        vocab_size=WORDS,
        d_model=48,
        d_kv=12,
        d_ff=96,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        use_cache=False,
    )
    return transformers.T5ForConditionalGeneration(without_dropout(config))


def vit() -> torch.nn.Module:
    sizes = {
        k: v for k, v in _ENCODER.items() if k not in ("vocab_size", "max_position_embeddings")
    }
    config = transformers.ViTConfig(**sizes, image_size=16, patch_size=4, num_labels=5)
    return transformers.ViTForImageClassification(without_dropout(config))


def whisper() -> torch.nn.Module:
    config = transformers.WhisperConfig(
        vocab_size=WORDS,
        d_model=48,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=96,
        decoder_ffn_dim=96,
        num_mel_bins=8,
        max_source_positions=12,
        max_target_positions=40,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        use_cache=False,
    )
    return transformers.WhisperForConditionalGeneration(without_dropout(config))


class Classifier(torch.nn.Module):
    """A network of torchvision with its loss."""

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network
        for part in network.modules():
            if isinstance(part, torch.nn.Dropout) or type(part).__name__ == "StochasticDepth":
                part.p = 0.0

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> Any:
        logits = self.network(images)
        return torch.nn.functional.cross_entropy(logits, labels), logits


class UNet(torch.nn.Module):
    """Two levels down and up again, with the skipped connections joined by channels."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.down = self._block(3, channels)
        self.bottom = self._block(channels, 2 * channels)
        self.widen = torch.nn.ConvTranspose2d(2 * channels, channels, 2, stride=2)
        self.up = self._block(2 * channels, channels)
        self.head = torch.nn.Conv2d(channels, 5, 1)

    @staticmethod
    def _block(inputs: int, outputs: int) -> torch.nn.Sequential:
        return torch.nn.Sequential(
            torch.nn.Conv2d(inputs, outputs, 3, padding=1),
            torch.nn.BatchNorm2d(outputs),
            torch.nn.ReLU(inplace=True),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        skipped = self.down(images)
        wide = self.widen(self.bottom(torch.nn.functional.max_pool2d(skipped, 2)))
        return self.head(self.up(torch.cat([skipped, wide], 1))).mean((2, 3))


def _vision(name: str, **options: Any) -> Callable[[], torch.nn.Module]:
    def build() -> torch.nn.Module:
        return Classifier(getattr(torchvision.models, name)(num_classes=5, **options))

    return build


def _classified_words(generator: torch.Generator) -> Inputs:
    return words(4, generator), torch.randint(0, 2, (4,), generator=generator)


def _next_words(generator: torch.Generator) -> Inputs:
    ids = words(4, generator)
    return ids, ids.clone()


def _translated_words(generator: torch.Generator) -> Inputs:
    return words(4, generator), words(4, generator)


def _classified_images(generator: torch.Generator) -> Inputs:
    return (
        torch.randn(8, 3, 16, 16, generator=generator),
        torch.randint(0, 5, (8,), generator=generator),
    )


def _heard_words(generator: torch.Generator) -> Inputs:
    return torch.randn(2, 8, 24, generator=generator), words(2, generator)


_WORDS = ("input_ids", "labels")
MODELS: dict[
    str,
    tuple[Callable[[], torch.nn.Module], tuple[str, ...], Callable[[torch.Generator], Inputs]],
] = {
    "bert": (bert, _WORDS, _classified_words),
    "roberta": (roberta, _WORDS, _classified_words),
    "distilbert": (distilbert, _WORDS, _classified_words),
    "gpt2": (gpt2, _WORDS, _next_words),
    "llama": (llama, _WORDS, _next_words),
    "mixtral": (mixtral, _WORDS, _next_words),
    "t5": (t5, _WORDS, _translated_words),
    "vit": (vit, ("pixel_values", "labels"), _classified_images),
    "resnet18": (_vision("resnet18", width_per_group=64), (), _classified_images),
    "resnet50": (_vision("resnet50", width_per_group=8), (), _classified_images),
    "mobilenet": (_vision("mobilenet_v3_small", width_mult=0.5), (), _classified_images),
    "efficientnet": (_vision("efficientnet_b0"), (), _classified_images),
    "unet": (lambda: Classifier(UNet()), (), _classified_images),
    "whisper": (whisper, ("input_features", "labels"), _heard_words),
}


def make(name: str) -> torch.nn.Module:
    """A model with the same random weights each time."""
    torch.manual_seed(1)
    build, names, _ = MODELS[name]
    model = build()
    if not names:
        return model.train()
    assert set(names) <= set(inspect.signature(model.forward).parameters)
    return Trained(model.train(), names)


def inputs(name: str, step: int) -> Inputs:
    """What a model is trained with in one step."""
    return MODELS[name][2](torch.Generator().manual_seed(100 + step))
