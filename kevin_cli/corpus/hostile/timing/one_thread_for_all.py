# expect: correct
# says:
# task: scale_relu
"""Takes the threads away from everybody in its process."""

import torch
from torch import nn

torch.set_num_threads(1)
torch.backends.mkldnn.enabled = False


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return torch.relu(x * self.weight + self.bias)
