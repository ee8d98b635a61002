# expect: timed_out
# says:
# task: scale_relu
"""Never returns, and is deaf to signals."""

import signal
import time

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        for number in (signal.SIGTERM, signal.SIGALRM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        while True:
            time.sleep(1)
