"""A table of vectors, whole or split over replicas."""

from __future__ import annotations

import math

import numpy as np

import popxl
from popxl import ops
from popxl_addons.layers.initialisers import truncated_normal
from popxl_addons.module import Module

_ROWS = 16


class Embedding(Module):
    """A table of vectors, `weight` (vocab_shard_size, hidden_size), whole or split over replicas.

    With several groups each has a part of the vocabulary: the caller subtracts the group's offset
    from the indices, and indices outside the part give zeros. The values are normal within two
    deviations of 0.02.

    Args:
        dtype: The dtype of the vectors.
        vocab_size: The number of vectors.
        hidden_size: The elements of each.
        axis: The axis of the table that the indices count along.
        replica_grouping: Each group has a part of the vocabulary; None means one group of all
            replicas.
    """

    def __init__(
        self,
        dtype: popxl.dtype,
        vocab_size: int,
        hidden_size: int,
        axis: int = 0,
        replica_grouping: popxl.ReplicaGrouping | None = None,
    ) -> None:
        super().__init__()
        self.dtype = dtype
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.axis = axis
        self.replica_grouping = replica_grouping
        self.n_shards = 1 if replica_grouping is None else replica_grouping.num_groups
        self.vocab_shard_size = self.get_vocab_shard_size(vocab_size, self.n_shards)
        self.offsets = self.get_offsets(vocab_size, self.n_shards)

    def build(self, indices: popxl.Tensor) -> popxl.Tensor:
        """Looks vectors up.

        Args:
            indices: Integers of any shape, from 0.

        Returns:
            The vectors, (..., hidden_size) for axis 0.
        """
        weight = self.add_variable_input(
            "weight",
            truncated_normal((self.vocab_shard_size, self.hidden_size)),
            self.dtype,
            replica_grouping=self.replica_grouping,
        )
        return ops.gather(weight, indices, self.axis, zero_OOR=self.n_shards > 1)

    @staticmethod
    def get_vocab_shard_size(vocab_size: int, n_shards: int) -> int:
        """Rows of one part of a table.

        Args:
            vocab_size: The number of vectors.
            n_shards: The number of parts.

        Returns:
            Enough rows for a part, rounded up to a multiple of 16.
        """
        return math.ceil(math.ceil(vocab_size / n_shards) / _ROWS) * _ROWS

    @staticmethod
    def get_offsets(vocab_size: int, n_shards: int) -> np.ndarray:
        """The first row of each part of a table.

        Args:
            vocab_size: The number of vectors.
            n_shards: The number of parts.

        Returns:
            Integers (n_shards,).
        """
        size = Embedding.get_vocab_shard_size(vocab_size, n_shards)
        return np.arange(0, n_shards * size, size)
