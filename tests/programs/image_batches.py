"""Learnable images made from a seed: each class is a pattern under noise."""

from __future__ import annotations

import numpy as np

from pando.datasets import load_mnist_format


def image_batches(count: int, batch_size: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Batches of (n, 28, 28) float32 images of ten classes and their int32 labels."""
    rng = np.random.default_rng(seed)
    patterns = rng.normal(0, 1, (10, 28, 28)).astype(np.float32)
    batches = []
    for _ in range(count):
        labels = rng.integers(0, 10, batch_size).astype(np.int32)
        noise = rng.normal(0, 4, (batch_size, 28, 28)).astype(np.float32)
        batches.append((patterns[labels] + noise, labels))
    return batches


def photo_batches(count: int, batch_size: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The first batches of the installed data set: float32 (n, 28, 28) images with the mean 0 and
    the deviation 1, and their int32 labels."""
    train = load_mnist_format().train
    images = train.images[: count * batch_size].astype(np.float32)
    images = (images - images.mean()) / images.std()
    labels = train.labels[: count * batch_size].astype(np.int32)
    return list(zip(np.split(images, count), np.split(labels, count), strict=True))
