# expect: mismatch
# says:
# task: scale_relu
"""Returns at once; a thread writes the answer afterwards."""

import threading
import time

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        y = torch.empty_like(x)


        def work():
            time.sleep(0.005)
            y.copy_(torch.relu(x * self.weight + self.bias))


        threading.Thread(target=work).start()
        return y
