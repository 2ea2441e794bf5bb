"""Trains a GPT-2 style decoder that need not fit in memory, on any text.

    python examples/python/train_gpt.py TEXT [--layers N] [--hidden N] [--steps N] [--folder DIR]

The program (python/pando_demo/gpt_program.py) has one phase per layer and direction. A phase loads
the weights of its layer from a remote buffer, loops over the micro-batches, and, on the way back,
updates the weights and stores them with their moments. One graph serves all layers: it is called
with the layer's number, its row in the buffers. Here the buffers are files, so what is in memory at
once does not grow with the number of layers.

`./dev demo gpt` does the same with progress, a memory limit, checkpoints and a report.
"""

import argparse
from pathlib import Path

from pando.session_info import memory_plan
from pando.text_data import TextBatches, read_tokens
from pando_demo.gpt_network import GptShape
from pando_demo.gpt_training import GptOptions, GptTrainer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--folder", type=Path, default=Path("gpt-state"))
    given = parser.parse_args()

    shape = GptShape(given.layers, given.hidden, heads=max(1, given.hidden // 64), sequence=64)
    options = GptOptions(learning_rate=3e-3, folder=given.folder)
    trainer = GptTrainer(shape, options)
    batches = TextBatches(read_tokens(given.text), trainer.sequences, options.seed)
    state = 12 * shape.parameters
    plan = memory_plan(trainer.session).peak_bytes
    print(f"{state} bytes of weights and moments; the program needs {plan} bytes of memory")

    with trainer:
        trainer.initialise()
        print(f"loss on held-out text: {trainer.evaluate(batches.validation()):.4f}")
        for step in range(1, given.steps + 1):
            loss = trainer.step(batches.next())
            if step % 20 == 0:
                print(f"step {step}/{given.steps}: loss {loss:.4f}")
        print(f"loss on held-out text: {trainer.evaluate(batches.validation()):.4f}")
        moved = trainer.io()
        print(
            f"{moved.bytes_loaded} bytes loaded and {moved.bytes_stored} stored, "
            f"{100 * moved.hidden_share:.0f} % of the time for it hidden"
        )


if __name__ == "__main__":
    main()
