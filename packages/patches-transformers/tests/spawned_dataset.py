"""A dataset for worker processes that are spawned: each item is what a model computes there."""

from __future__ import annotations

import torch


class Logits(torch.utils.data.Dataset):
    """Holds a model, which reaches a worker by pickle."""

    def __init__(self, model, prompts):
        self.model, self.prompts = model, prompts

    def __len__(self):
        return len(self.prompts)

    def __getitem__(self, index):
        torch.set_num_threads(1)
        with torch.no_grad():
            return self.model(self.prompts[index : index + 1]).logits[0]
