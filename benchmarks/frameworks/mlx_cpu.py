"""MLX on its CPU device: one compiled step over captured state, evaluated every step."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from benchmarks import data
from benchmarks.cases import NETWORKS, Case
from benchmarks.program import NotMeasured, Program, Steps

Params = dict[str, mx.array]


def _dense(p: Params, name: str, x: mx.array) -> mx.array:
    return mx.addmm(p[f"{name}.bias"], x, p[f"{name}.weight"])


def _layer_norm(p: Params, name: str, x: mx.array) -> mx.array:
    return mx.fast.layer_norm(x, p[f"{name}.weight"], p[f"{name}.bias"], 1e-5)


def _mlp(p: Params, x: mx.array) -> mx.array:
    x = x.reshape(-1, data.MLP_SIZES[0])
    for name in ("fc1", "fc2", "fc3"):
        x = nn.gelu_approx(_dense(p, name, x))
    return _dense(p, "fc4", x)


def _cnn(p: Params, x: mx.array) -> mx.array:
    pool = nn.MaxPool2d(2, 2)
    x = x.transpose(0, 2, 3, 1)  # MLX convolves channels last
    for name in ("conv1", "conv2"):
        kernel = p[f"{name}.weight"].transpose(0, 2, 3, 1)
        x = pool(nn.relu(mx.conv2d(x, kernel, padding=1) + p[f"{name}.bias"]))
    return _dense(p, "fc", x.transpose(0, 3, 1, 2).reshape(x.shape[0], -1))


def _encoder_layer(p: Params, name: str, x: mx.array, of: data.Sizes) -> mx.array:
    batch, sequence, hidden = x.shape
    qkv = _dense(p, f"{name}.qkv", _layer_norm(p, f"{name}.norm1", x))
    heads = qkv.reshape(batch, sequence, 3, of.heads, -1).transpose(2, 0, 3, 1, 4)
    attention = mx.fast.scaled_dot_product_attention(
        heads[0], heads[1], heads[2], scale=(hidden // of.heads) ** -0.5
    )
    x = x + _dense(p, f"{name}.proj", attention.transpose(0, 2, 1, 3).reshape(x.shape))
    inner = _dense(p, f"{name}.ff1", _layer_norm(p, f"{name}.norm2", x))
    return x + _dense(p, f"{name}.ff2", nn.gelu_approx(inner))


def _logits(case: Case, p: Params, x: mx.array) -> mx.array:
    if case.family == "mlp":
        return _mlp(p, x)
    if case.family == "cnn":
        return _cnn(p, x)
    of = data.sizes(case)
    for i in range(case.layers):
        x = _encoder_layer(p, f"layer{i}", x, of)
    return _dense(p, "head", x).reshape(-1, of.classes)


def _train(case: Case) -> Steps:
    p = {name: mx.array(value) for name, value in data.weights(case).items()}
    adam = case.optimizer != "sgd"
    moment = mx.float16 if case.optimizer == "tutorial_adam" else mx.float32
    m = {name: mx.zeros(value.shape, moment) for name, value in p.items()} if adam else {}
    v = {name: mx.zeros_like(value) for name, value in p.items()} if adam else {}
    count = {"steps": mx.array(0.0)}
    state = [p, m, v, count]
    lr, b1, b2 = data.LEARNING_RATE, data.BETA1, data.BETA2

    def loss_of(values: Params, x: mx.array, labels: mx.array) -> mx.array:
        return nn.losses.cross_entropy(_logits(case, values, x), labels, reduction="mean")

    @partial(mx.compile, inputs=state, outputs=state)
    def step(x: mx.array, labels: mx.array) -> mx.array:
        loss, grads = mx.value_and_grad(loss_of)(p, x, labels)
        count["steps"] = count["steps"] + 1
        scale1, scale2 = mx.array(1.0), mx.array(1.0)
        if case.optimizer == "adam":
            scale1, scale2 = 1 - b1 ** count["steps"], 1 - b2 ** count["steps"]
        for name, grad in grads.items():
            if adam:
                mean = b1 * m[name].astype(mx.float32) + (1 - b1) * grad
                m[name] = mean.astype(moment)
                v[name] = b2 * v[name] + (1 - b2) * grad * grad
                grad = (mean / scale1) / (mx.sqrt(v[name] / scale2) + data.EPSILON)
            p[name] = p[name] - lr * grad
        return loss

    feed = itertools.cycle([(b.x, b.labels) for b in data.batches(case)])

    def run(steps: int) -> list[Any]:
        losses = []
        for x, labels in itertools.islice(feed, steps):
            losses.append(step(mx.array(x), mx.array(labels)))
            mx.eval(losses[-1], state)
        return [loss.item() for loss in losses]

    return Steps(run)


def _infer(case: Case) -> Steps:
    import numpy as np

    p = {name: mx.array(value) for name, value in data.weights(case).items()}
    function: Any = mx.compile(lambda x: _logits(case, p, x), inputs=p)
    feed = itertools.cycle([b.x for b in data.batches(case)])

    def run(steps: int) -> Any:
        for x in itertools.islice(feed, steps):
            logits = np.array(function(mx.array(x)))
        return logits

    return Steps(run)


def _pass_over_memory(case: Case) -> Steps:
    vectors = data.row_vectors()
    a, b, c = (mx.array(v) for v in (vectors.a, vectors.b, vectors.c))

    def light(x: mx.array) -> mx.array:
        return nn.relu(x * a + b) * c + x * 0.5 - 1.0

    def gelu(x: mx.array) -> mx.array:
        return nn.gelu_approx(x * a + b) * c + x

    def norm(x: mx.array) -> mx.array:
        return mx.fast.layer_norm(mx.softmax(x, axis=-1), a, b, 1e-5)

    function = mx.compile({"light": light, "gelu": gelu, "norm": norm}[case.family])
    x = mx.array(data.plane(case))

    def run(steps: int) -> mx.array:
        for _ in range(steps):
            result = function(x)
            mx.eval(result)
        return result

    return Steps(run)


def build(case: Case, threads: int) -> Program:
    del threads  # set through the environment of the process
    mx.set_default_device(mx.cpu)
    if case.family in ("empty", "compile"):
        raise NotMeasured("no counterpart: sessions and graph reuse are Pando's")
    if case.family == "decoder":
        raise NotMeasured("steps on MLX's CPU device take minutes")
    if case.family in NETWORKS:
        return _train(case) if case.training else _infer(case)
    return _pass_over_memory(case)
