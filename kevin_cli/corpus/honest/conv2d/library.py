# expect: correct
# says:
# family: library
"""torch's own convolution through other parameters: right, and no faster."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.Conv2d(3, 5, 3)
        self.kernel, self.shift = layer.weight, layer.bias

    def forward(self, x):
        return torch.conv2d(x, self.kernel, self.shift, stride=2, padding=1)
