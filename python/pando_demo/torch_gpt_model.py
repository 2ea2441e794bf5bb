"""A GPT-2 of transformers, as it is trained and as it writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import transformers

import poptorch
from pando_demo.gpt_network import GptShape


def make_model(shape: GptShape, folder: Path, seed: int) -> transformers.GPT2LMHeadModel:
    """Make the model, with its weights in files.

    Args:
        shape: Its sizes.
        folder: Where the files are.
        seed: Of the first weights.

    Returns:
        The model, whose embedding is its head too.
    """
    torch.manual_seed(seed)
    config = transformers.GPT2Config(
        vocab_size=shape.vocabulary,
        n_layer=shape.layers,
        n_embd=shape.hidden,
        n_head=shape.heads,
        n_positions=shape.sequence,
        # A short run sees each text once: there is nothing to forget.
        attn_pdrop=0.0,
        embd_pdrop=0.0,
        resid_pdrop=0.0,
        bos_token_id=None,
        eos_token_id=None,
        use_cache=False,
    )
    with poptorch.parameters_in_files(folder):
        return transformers.GPT2LMHeadModel(config)


class NextToken(torch.nn.Module):
    """The loss of a model of tokens.

    Args:
        model: The model.
    """

    def __init__(self, model: transformers.GPT2LMHeadModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Compute the loss.

        Args:
            tokens: Integers (sequences, length).
            labels: The tokens that follow, of the same shape.

        Returns:
            The mean cross entropy, of rank 0.
        """
        logits = self.model(tokens).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


class ScoresAt(torch.nn.Module):
    """The scores of the token behind a position.

    Args:
        model: The model.
    """

    def __init__(self, model: transformers.GPT2LMHeadModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Compute the scores.

        Args:
            tokens: Integers (texts, length); what is behind the position does not matter.
            position: An integer (1,).

        Returns:
            Scores (texts, vocabulary).
        """
        states = self.model.transformer(tokens).last_hidden_state
        return self.model.lm_head(states.index_select(1, position)[:, 0])


def write(
    scores: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    prompt: bytes,
    texts: int,
    count: int,
    choose: Callable[[np.ndarray], np.ndarray],
    should_stop: Callable[[], bool],
) -> np.ndarray:
    """Write texts, a byte of each at a time.

    Args:
        scores: A `ScoresAt`, or what runs it.
        prompt: What texts begin with, at least one byte.
        texts: How many there are.
        count: Bytes of each.
        choose: Given scores (texts, vocabulary), it returns the next byte of each text.
        should_stop: Asked before each byte whether to write no more.

    Returns:
        int32 (texts, length) with the prompt.
    """
    first = np.frombuffer(prompt, np.uint8).astype(np.int32)
    # The byte that is written last is not read.
    tokens = torch.zeros(texts, len(first) + count, dtype=torch.int32)
    tokens[:, : len(first)] = torch.from_numpy(first)
    length = len(first)
    while length < tokens.shape[1] and not should_stop():
        given = scores(tokens, torch.tensor([length - 1], dtype=torch.int32))
        tokens[:, length] = torch.from_numpy(choose(given.numpy()))
        length += 1
    return tokens[:, :length].numpy()
