"""Trains a GPT-2 of transformers that need not fit in memory: python train_torch_gpt.py TEXT"""

import sys
from pathlib import Path

import torch
import transformers

import poptorch
from pando.text_data import TextBatches, read_tokens

LAYERS, WIDTH, STEPS = 4, 128, 20
folder = Path("torch-gpt-state")
folder.mkdir(exist_ok=True)


class NextToken(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens, labels):
        logits = self.model(tokens).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


config = transformers.GPT2Config(
    vocab_size=257, n_layer=LAYERS, n_embd=WIDTH, n_head=4, n_positions=64, use_cache=False
)
with poptorch.parameters_in_files(folder):
    network = NextToken(transformers.GPT2LMHeadModel(config))
options = poptorch.Options().fit_in("4GiB", folder)
optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
trainer = poptorch.trainingModel(network, options, optimizer)
batches = TextBatches(read_tokens(sys.argv[1]), (1, 8, 64), seed=1)
for step in range(STEPS):
    batch = batches.next()
    loss = trainer(*(torch.from_numpy(part[0]).long() for part in (batch.tokens, batch.labels)))
    print(f"step {step + 1}/{STEPS}: loss {float(loss):.4f}")
print(trainer.fitPlan())
trainer.saveCheckpoint(folder / "checkpoints", step=STEPS)
