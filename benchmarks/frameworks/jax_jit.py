"""JAX: one jitted step, state donated, the host never waits inside a block."""

from __future__ import annotations

import itertools
import time
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks import data
from benchmarks.cases import NETWORKS, Case
from benchmarks.frameworks.jax_layers import LOSSES, Params, dense, encoder_layer, layer_norm
from benchmarks.models import families, generation
from benchmarks.program import NotMeasured, Once, Program, Steps

Arrays = tuple[jax.Array, ...]
State = tuple[Params, Params, Params, jax.Array]  # weights, moments, steps done


def _mlp(p: Params, x: jax.Array) -> jax.Array:
    x = x.reshape(-1, data.MLP_SIZES[0])
    for name in ("fc1", "fc2", "fc3"):
        x = jax.nn.gelu(dense(p, name, x), approximate=True)
    return dense(p, "fc4", x)


def _cnn(p: Params, x: jax.Array) -> jax.Array:
    # XLA's CPU convolution wants channels last; one channel makes this transpose a reshape.
    x = x.transpose(0, 2, 3, 1)
    for name in ("conv1", "conv2"):
        kernel = p[f"{name}.weight"].transpose(2, 3, 1, 0)
        dims = ("NHWC", "HWIO", "NHWC")
        x = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=dims)
        x = jax.nn.relu(x + p[f"{name}.bias"])
        window = (1, 2, 2, 1)
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")
    return dense(p, "fc", x.transpose(0, 3, 1, 2).reshape(x.shape[0], -1))


def _outputs(case: Case, p: Params, *inputs: jax.Array) -> jax.Array:
    if case.variant:
        return families.on("jax", case).outputs(families.model(case), p, *inputs)
    (x,) = inputs
    if case.family == "mlp":
        return _mlp(p, x)
    if case.family == "cnn":
        return _cnn(p, x)
    of = data.sizes(case)
    if case.family == "decoder":
        x = p["tokens"][x] + p["positions"]
    for i in range(case.layers):
        x = encoder_layer(p, f"layer{i}", x, of)
    if case.family == "decoder":
        x = layer_norm(p, "norm", x)
    return dense(p, "head", x).reshape(-1, of.classes)


def _training_outputs(case: Case, p: Params, *inputs: jax.Array) -> tuple[jax.Array, Params]:
    """The outputs, and weights that training writes itself: statistics of batch norms."""
    own = getattr(families.on("jax", case), "training_outputs", None) if case.variant else None
    if own is not None:
        return own(families.model(case), p, *inputs)
    return _outputs(case, p, *inputs), {}


def _adam_update(case: Case, state: State, g: Params) -> State:
    p, m, v, count = state
    lr, b1, b2 = data.LEARNING_RATE, data.BETA1, data.BETA2
    decay = data.WEIGHT_DECAY if case.optimizer == "adamw" else 0.0
    count = count + 1
    mean = jax.tree.map(lambda a, d: b1 * a.astype(jnp.float32) + (1 - b1) * d, m, g)
    m = jax.tree.map(lambda old, new: new.astype(old.dtype), m, mean)
    v = jax.tree.map(lambda a, d: b2 * a + (1 - b2) * d * d, v, g)
    corrected = case.optimizer != "tutorial_adam"
    scale1, scale2 = (1 - b1**count, 1 - b2**count) if corrected else (1.0, 1.0)

    def move(w: jax.Array, a: jax.Array, s: jax.Array) -> jax.Array:
        return w - lr * ((a / scale1) / (jnp.sqrt(s / scale2) + data.EPSILON) + decay * w)

    return (jax.tree.map(move, p, mean, v), m, v, count)


def _update(case: Case, state: State, g: Params) -> State:
    if case.optimizer not in ("sgd", "momentum"):
        return _adam_update(case, state, g)
    p, m, v, count = state
    if case.optimizer == "momentum":
        g = m = jax.tree.map(lambda a, d: data.MOMENTUM * a + d, m, g)
    return (jax.tree.map(lambda w, d: w - data.LEARNING_RATE * d, p, g), m, v, count)


def _step_function(case: Case) -> Any:
    """(state, inputs, labels) to (state, loss)."""
    own_step = getattr(families.on("jax", case), "step", None) if case.variant else None

    def loss_of(p: Params, inputs: Arrays, labels: jax.Array) -> tuple[jax.Array, Params]:
        outputs, written = _training_outputs(case, p, *inputs)
        return LOSSES[data.loss_kind(case)](outputs, labels), written

    def step(state: State, inputs: Arrays, labels: jax.Array) -> Any:
        if own_step is not None:
            p, loss = own_step(families.model(case), state[0], *inputs, labels)
            return (p, *state[1:]), loss
        (loss, written), g = jax.value_and_grad(loss_of, has_aux=True)(state[0], inputs, labels)
        p, *rest = _update(case, state, g)
        return (p | written, *rest), loss

    return jax.jit(step, donate_argnums=0)


def _weights(case: Case) -> Params:
    p = {name: jnp.array(value) for name, value in data.weights(case).items()}
    prepare = getattr(families.on("jax", case), "prepare", None) if case.variant else None
    return p if prepare is None else prepare(p)


def _initial_state(case: Case) -> State:
    p = _weights(case)
    if case.optimizer == "sgd":
        return (p, {}, {}, jnp.zeros(()))
    moment = jnp.float16 if case.optimizer == "tutorial_adam" else jnp.float32
    first = jax.tree.map(lambda w: jnp.zeros(w.shape, moment), p)
    second = {} if case.optimizer == "momentum" else jax.tree.map(jnp.zeros_like, p)
    return (p, first, second, jnp.zeros(()))


def _train(case: Case) -> Steps:
    step = _step_function(case)
    state = _initial_state(case)
    feed = itertools.cycle([(b.inputs, b.labels) for b in data.batches(case)])

    def run(steps: int) -> list[Any]:
        nonlocal state
        losses = []
        for inputs, labels in itertools.islice(feed, steps):
            state, loss = step(state, inputs, labels)
            losses.append(loss)
        jax.block_until_ready(state)
        return jax.device_get(losses)

    return Steps(run, note="donated state")


def _infer(case: Case) -> Steps:
    p = _weights(case)
    function = jax.jit(lambda values, inputs: _outputs(case, values, *inputs))
    feed = itertools.cycle([b.inputs for b in data.batches(case)])

    def run(steps: int) -> Any:
        for inputs in itertools.islice(feed, steps):
            outputs = jax.device_get(function(p, inputs))
        return outputs

    return Steps(run)


def _pass_over_memory(case: Case) -> Steps:
    vectors = data.row_vectors()
    a, b, c = (jnp.array(v) for v in (vectors.a, vectors.b, vectors.c))

    def light(x: jax.Array) -> jax.Array:
        return jax.nn.relu(x * a + b) * c + x * 0.5 - 1.0

    def gelu(x: jax.Array) -> jax.Array:
        return jax.nn.gelu(x * a + b, approximate=True) * c + x

    def norm(x: jax.Array) -> jax.Array:
        return layer_norm({"n.weight": a, "n.bias": b}, "n", jax.nn.softmax(x, axis=-1))

    function = {"light": light, "gelu": gelu, "norm": norm}[case.family]
    # The second argument is only there to be written over: its buffer becomes the result.
    jitted = jax.jit(lambda x, _: function(x), donate_argnums=1, keep_unused=True)
    x = jnp.array(data.plane(case))
    y = jnp.zeros_like(x)

    def run(steps: int) -> jax.Array:
        nonlocal y
        for _ in range(steps):
            y = jitted(x, y)
        return y.block_until_ready()

    return Steps(run, note="donated output")


def _compile_time(case: Case) -> Once:
    batch = data.batches(case)[0]
    state = _initial_state(case)

    def measure() -> float:
        jax.clear_caches()
        start = time.perf_counter()
        _step_function(case).lower(state, batch.inputs, batch.labels).compile()
        return time.perf_counter() - start

    return Once(measure)


def build(case: Case, threads: int) -> Program:
    del threads  # set through the environment and the core mask before XLA starts
    if case.mode == "total_mlp":
        return _compile_time(Case("", "mlp", "ms", "train", case.optimizer, case.batch))
    if case.family in ("empty", "compile"):
        raise NotMeasured("no counterpart: sessions and graph reuse are Pando's")
    if case.family == "generation":
        decoder = families.on("jax", case).decoder
        return generation.steps(case, decoder(families.model(case), case.batch, _weights(case)))
    if case.variant or case.family in NETWORKS:
        return _train(case) if case.training else _infer(case)
    return _pass_over_memory(case)
