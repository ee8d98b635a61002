# expect: mismatch
# says: 
"""Returns at once and lets a thread do the work."""

import threading
import time
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.calls = 0

    def forward(self, x):
        out = torch.empty_like(x)

        def work():
            time.sleep(0.01)
            out.copy_(torch.relu(x * self.weight + self.bias))

        threading.Thread(target=work).start()
        return out
