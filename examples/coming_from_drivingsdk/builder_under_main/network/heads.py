import numpy as np
import torch

from .cuda_ops import index as lookup
from .cuda_ops import nms


class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.score = torch.nn.Linear(4, 1)

    def forward(self, boxes):
        scores = torch.sigmoid(self.score(boxes)).squeeze(-1)
        keep = nms(boxes, scores, np.float(0.5))
        return lookup(scores, keep)
