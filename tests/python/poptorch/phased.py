"""What tests of programs in phases share."""

from __future__ import annotations

import torch

import poptorch


def options_of(folder=None, accumulation=1, iterations=1, blocks=None, replicas=1):
    options = poptorch.Options().deviceIterations(iterations).randomSeed(1)
    options.replicationFactor(replicas)
    options.showCompilationProgressBar(False)
    options.Training.gradientAccumulation(accumulation)
    return options if folder is None else options.fit_in("64GiB", folder, blocks)


def check_same(given, wanted):
    for one, other in zip(given, wanted, strict=True):
        torch.testing.assert_close(one, other)
