# expect: mismatch
# says:
# task: row_stats
"""The outputs are right and the wrong way round."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.var(-1), x.mean(-1)
