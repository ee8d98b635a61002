# expect: timed_out
# says: did not finish
"""An endless loop in a call, deaf to signals."""

import signal
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.calls = 0

    def forward(self, x):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            pass
