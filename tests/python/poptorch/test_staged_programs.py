"""Programs on several devices, beside the same program on one device."""

from __future__ import annotations

import pytest
import torch

import poptorch
from tests.python.poptorch.staged_networks import BATCH, STRATEGIES, Network, NoBlock, data

STEPS = 10


def options_of(strategy=None, accumulation=1, iterations=1, **settings):
    options = poptorch.Options().deviceIterations(iterations)
    options.Training.gradientAccumulation(accumulation)
    options.autoRoundNumIPUs(True)
    for name, value in settings.items():
        getattr(options, name)(value)
    return options if strategy is None else options.setExecutionStrategy(strategy)


def trained(model, options, optimizer=torch.optim.SGD, steps=STEPS, **arguments):
    optimizer = optimizer(model.parameters(), lr=0.05, **arguments)
    executor = poptorch.trainingModel(model, options, optimizer)
    count = BATCH * options.device_iterations * options.Training.gradient_accumulation
    results = [executor(*data(count, seed)) for seed in range(steps)]
    state = {name: value.clone() for name, value in model.state_dict().items()}
    executor.destroy()
    return state, results


def check_same(given, wanted):
    for one, other in zip(given, wanted, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
@pytest.mark.parametrize(("accumulation", "iterations"), [(7, 1), (9, 2)])
def test_training_is_that_of_one_device(strategy, accumulation, iterations):
    settings = {"accumulation": accumulation, "iterations": iterations}
    wanted, wanted_results = trained(Network(False), options_of(**settings))
    given, results = trained(Network(True), options_of(strategy(), **settings))
    for name in wanted:
        torch.testing.assert_close(given[name], wanted[name])
    for one, other in zip(results, wanted_results, strict=True):
        check_same(one, other)
    assert not torch.equal(wanted["first.weight"], Network(False).first.weight)


@pytest.mark.parametrize("optimizer", [poptorch.optim.SGD, poptorch.optim.AdamW])
def test_optimizers_with_state(optimizer):
    settings = {"accumulation": 5, "iterations": 1}
    more = {"momentum": 0.9} if optimizer is poptorch.optim.SGD else {"weight_decay": 0.1}
    wanted, _ = trained(Network(False), options_of(**settings), optimizer, **more)
    given, _ = trained(
        Network(True), options_of(poptorch.PipelinedExecution(), **settings), optimizer, **more
    )
    for name in wanted:
        torch.testing.assert_close(given[name], wanted[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "mode",
    [
        (poptorch.OutputMode.All,),
        (poptorch.OutputMode.Final,),
        (poptorch.OutputMode.Sum,),
        (poptorch.OutputMode.EveryN, 5),
    ],
    ids=str,
)
def test_output_modes(mode):
    settings = {"accumulation": 5, "iterations": 2}
    wanted = trained(Network(False), options_of(**settings).outputMode(*mode), steps=2)[1]
    options = options_of(poptorch.PipelinedExecution(), **settings).outputMode(*mode)
    for one, other in zip(trained(Network(True), options, steps=2)[1], wanted, strict=True):
        check_same(one, other)


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_inference(strategy):
    model = Network(True)
    x, _ = data(BATCH * 5)
    given = poptorch.inferenceModel(model, options_of(strategy(), iterations=5))(x)
    torch.testing.assert_close(given, Network(False)(x))


def test_results_of_inference_that_stay_in_the_program():
    x, _ = data(BATCH * 5)
    for mode in (poptorch.OutputMode.Final, poptorch.OutputMode.Sum):
        options = options_of(poptorch.PipelinedExecution(), iterations=5).outputMode(mode)
        given = poptorch.inferenceModel(Network(True), options)(x)
        parts = Network(False)(x).reshape(5, BATCH, 4)
        wanted = parts[-1] if mode == poptorch.OutputMode.Final else parts.sum(0)
        torch.testing.assert_close(given, wanted)


def test_too_few_micro_batches():
    x, target = data(BATCH * 4)
    training = poptorch.trainingModel(
        Network(True), options_of(poptorch.PipelinedExecution(), accumulation=4)
    )
    with pytest.raises(poptorch.Error, match=r"the number of pipeline stages \(5\) when using"):
        training.compile(x, target)
    inference = poptorch.inferenceModel(
        Network(True), options_of(poptorch.PipelinedExecution(), iterations=2)
    )
    with pytest.raises(poptorch.Error, match=r"the number of pipeline stages \(3\) when using"):
        inference.compile(*data(BATCH * 2)[:1])
    for strategy in (
        poptorch.ShardedExecution(),
        poptorch.SerialPhasedExecution("part0", "part1", "part2"),
    ):
        model = poptorch.inferenceModel(Network(True), options_of(strategy))
        torch.testing.assert_close(model(x[:BATCH]), Network(False)(x[:BATCH]))


def test_stages_ascend_along_data_dependencies():
    class Back(torch.nn.Module):
        def forward(self, x):
            with poptorch.Block("a", ipu_id=0):
                y = x + 1
            with poptorch.Block("b", ipu_id=1):
                z = y * 2
            with poptorch.Block("c", ipu_id=0):
                return z - 3

    x = torch.arange(4.0)
    same = poptorch.PipelinedExecution(poptorch.AutoStage.SameAsIpu)
    with pytest.raises(
        poptorch.Error, match="stages of blocks must ascend along data dependencies"
    ):
        poptorch.inferenceModel(Back(), options_of(same, iterations=4)).compile(x)
    later = poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement)
    given = poptorch.inferenceModel(Back(), options_of(later, iterations=4))(x)
    assert torch.equal(given, Back()(x))


def test_independent_blocks_run_in_the_order_of_their_stages():
    class Crossed(torch.nn.Module):
        def forward(self, x):
            with poptorch.Block("late", ipu_id=1):
                y = x * 2
            with poptorch.Block("early", ipu_id=0):
                z = x + 1
            with poptorch.Block("late", ipu_id=1):
                return y - z

    x = torch.arange(4.0)
    strategy = poptorch.PipelinedExecution("early", "late")
    given = poptorch.inferenceModel(Crossed(), options_of(strategy, iterations=4))(x)
    assert torch.equal(given, Crossed()(x))


def test_dropout_draws_the_same_masks():
    class Dropped(torch.nn.Module):
        def __init__(self, blocks):
            super().__init__()
            self.blocks = blocks
            self.weight = torch.nn.Parameter(torch.ones(64))

        def forward(self, x):
            parts = []
            for number in range(2):
                with poptorch.Block(ipu_id=number) if self.blocks else NoBlock():
                    parts.append(torch.nn.functional.dropout(x * self.weight, 0.5))
            with poptorch.Block(ipu_id=1) if self.blocks else NoBlock():
                out = torch.stack(parts)
                return out, poptorch.identity_loss(out * out, "mean")

    def run(blocks):
        options = options_of(poptorch.PipelinedExecution(), accumulation=3, randomSeed=7)
        model = Dropped(blocks)
        executor = poptorch.trainingModel(model, options.outputMode(poptorch.OutputMode.All))
        results = [executor(torch.ones(3, 64)) for _ in range(2)]
        return [*results[0], *results[1], model.weight.detach().clone()]

    wanted = run(False)
    check_same(run(True), wanted)
    masks = wanted[0].reshape(3, 2, -1) != 0
    assert not torch.equal(masks[0], masks[1]) and not torch.equal(masks[0, 0], masks[0, 1])


def test_buffers():
    class Counted(torch.nn.Module):
        def __init__(self, blocks):
            super().__init__()
            self.blocks = blocks
            self.scale = torch.nn.Parameter(torch.ones(1))
            self.register_buffer("count", torch.zeros(1))
            self.register_buffer("mean", torch.zeros(2))

        def forward(self, x):
            with poptorch.Block(ipu_id=0) if self.blocks else NoBlock():
                self.count += 1
                y = x * self.scale * self.count
            with poptorch.Block(ipu_id=1) if self.blocks else NoBlock():
                self.mean[0] = self.mean[0] * 0.5 + y.mean()
                out = y * self.mean[0]
                return out, poptorch.identity_loss(out * out, "mean")

    def run(blocks):
        model = Counted(blocks)
        executor = poptorch.trainingModel(
            model,
            options_of(poptorch.PipelinedExecution(), accumulation=4),
            torch.optim.SGD(model.parameters(), lr=1e-3),
        )
        results = [executor(torch.linspace(1, 2, 8).reshape(8, 1)) for _ in range(3)]
        executor.copyWeightsToHost()
        return [*results[-1], *(value.clone() for value in model.state_dict().values())]

    check_same(run(True), run(False))


def test_a_buffer_that_two_stages_use():
    class Shared(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x):
            with poptorch.Block(ipu_id=0):
                y = x + self.count
            with poptorch.Block(ipu_id=1):
                self.count += 1
                return y * self.count

    x = torch.ones(4, 1)
    with pytest.raises(poptorch.Error, match=r"count is written in stage 1 .* read in stage 0"):
        poptorch.inferenceModel(
            Shared(), options_of(poptorch.PipelinedExecution(), iterations=4)
        ).compile(x)
    model = poptorch.inferenceModel(Shared(), options_of(poptorch.ShardedExecution(), iterations=4))
    wanted = torch.tensor([[1.0], [4.0], [9.0], [16.0]])
    assert torch.equal(model(x), wanted)


def test_views_and_writes_across_stages():
    class Written(torch.nn.Module):
        def forward(self, x):
            with poptorch.Block(ipu_id=0):
                y = x * 2
                row = y[0]
            with poptorch.Block(ipu_id=1):
                row += 1
                column = y[:, 1]
            with poptorch.Block(ipu_id=2):
                column *= 3
                return y, row, column

    x = torch.arange(24.0).reshape(8, 3)
    for strategy in (poptorch.PipelinedExecution(), poptorch.ShardedExecution()):
        given = poptorch.inferenceModel(Written(), options_of(strategy, iterations=4))(x)
        wanted = [Written()(part) for part in x.reshape(4, 2, 3)]
        check_same(given, [torch.cat(parts) for parts in zip(*wanted, strict=True)])


class PassesOn(torch.nn.Module):
    """Returns what an earlier block has made, unchanged by the last one."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.last = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x):
        with poptorch.Block("part0", ipu_id=0):
            hidden = self.first(x)
        with poptorch.Block("part1", ipu_id=1):
            loss = (self.last(hidden) ** 2).mean()
            return hidden.clone(), x.detach(), poptorch.identity_loss(loss, "none")


@pytest.mark.parametrize("kind", [poptorch.PipelinedExecution, poptorch.ShardedExecution])
def test_results_that_a_stage_only_passes_on(kind):
    options = options_of(kind("part0", "part1"), 4)
    options.outputMode(poptorch.OutputMode.All)
    model = PassesOn()
    executor = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    x, _ = data(4 * BATCH)
    wanted = model.first(x).detach()
    hidden, given, _ = executor(x)
    torch.testing.assert_close(hidden, wanted)
    torch.testing.assert_close(given, x)


def test_frozen_parts_and_inputs_that_nothing_reads():
    def run(annotated):
        model = Network(annotated)
        model.first.requires_grad_(False)
        options = options_of(poptorch.PipelinedExecution(), accumulation=5)
        return trained(model, options)[0]

    given, wanted = run(True), run(False)
    for name in wanted:
        torch.testing.assert_close(given[name], wanted[name])
    assert torch.equal(given["first.weight"], Network(False).first.weight)

    class Unread(torch.nn.Module):
        def forward(self, x, unread):
            with poptorch.Block(ipu_id=0):
                y = x + 1
            with poptorch.Block(ipu_id=1):
                return y * 2

    x, other = data(8)
    model = poptorch.inferenceModel(Unread(), options_of(iterations=4))
    for _ in range(2):
        torch.testing.assert_close(model(x, other), (x + 1) * 2)


def test_a_model_of_hooks_is_pipelined_too():
    def make():
        torch.manual_seed(0)
        return torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4), torch.nn.Tanh()
        )

    x, _ = data(8)
    wanted = make()(x)
    model = make()
    model[2] = poptorch.BeginBlock(model[2], ipu_id=1)
    given = poptorch.inferenceModel(model, options_of(iterations=4))(x)
    torch.testing.assert_close(given, wanted)


class Phased(torch.nn.Module):
    """The example of the user guide: two chains of products that cross from phase to phase."""

    def __init__(self, size, count):
        super().__init__()
        self.weights = torch.nn.ParameterList(values(size, size, seed=n) for n in range(count * 6))
        self.size, self.count = size, count

    def forward(self, in0, target=None):
        phase = 0
        weight = iter(self.weights)
        with poptorch.Block("phase0_ipu0"):
            ins = torch.split(in0, self.size)
        for n in range(self.count * 3):
            out = []
            for ipu in range(2):
                with poptorch.Block(f"phase{phase}_ipu{ipu}"):
                    out.append(torch.relu(torch.matmul(next(weight), ins[ipu])))
            ins = out[1], out[0]
            if n % 3 != 1:
                phase += 1
        with poptorch.Block(f"phase{self.count * 2 - 1}_ipu1"):
            res = ins[0] + ins[1]
            if target is None:
                return res
            return res, torch.nn.L1Loss(reduction="mean")(res, target)


def values(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * 0.4


def test_the_example_of_parallel_phases():
    phases = []
    for n in range(3):
        for odd in (0, 1):
            names = [f"phase{2 * n + odd}_ipu{ipu}" for ipu in range(2)]
            phases.append([poptorch.Stage(names[i]).ipu(2 * i + odd) for i in range(2)])
    options = poptorch.Options().setExecutionStrategy(poptorch.ParallelPhasedExecution(*phases))
    model, eager = Phased(10, 3), Phased(10, 3)
    trainer = poptorch.trainingModel(model, options)
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.01)
    x, target = torch.rand(20, 1), torch.rand(10, 1)
    for _ in range(3):
        given = trainer(x, target)
        wanted = eager(x, target)
        check_same(given, wanted)
        optimizer.zero_grad()
        wanted[1].backward()
        optimizer.step()
    check_same(model.state_dict().values(), eager.state_dict().values())


def test_replicas_of_a_pipeline():
    def run(strategy, annotated):
        options = options_of(strategy, accumulation=5, replicationFactor=2)
        model = Network(annotated)
        trainer = poptorch.trainingModel(
            model, options, torch.optim.SGD(model.parameters(), lr=0.05)
        )
        for seed in range(3):
            trainer(*data(BATCH * 10, seed))
        return list(model.state_dict().values())

    check_same(run(poptorch.PipelinedExecution(), True), run(poptorch.ShardedExecution(), False))
