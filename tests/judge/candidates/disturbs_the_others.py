# expect: correct, timed_out
# says: 
"""Lets threads spin while it is not called, so that the baselines seem slow. They hold up its own calls too."""

import threading
import time
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.last = None

    def spin(self):
        while True:
            if time.monotonic() - self.last > 0.001:
                sum(range(20_000))
            else:
                time.sleep(0.0005)

    def forward(self, x):
        if self.last is None:
            self.last = time.monotonic()
            for _ in range(4):
                threading.Thread(target=self.spin, daemon=True).start()
        self.last = time.monotonic()
        return torch.relu(x * self.weight + self.bias)
