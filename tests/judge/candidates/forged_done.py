# expect: mismatch
# says: not written
"""Says that the call is finished without having computed anything."""

import os
import struct
import sys
import time

import torch
from torch import nn

DONE = 10
FIRST_RUN = 4  # after open, load and weights


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        os.write(int(sys.argv[2]), struct.pack("<4sHHIQQ", b"KVN1", DONE, 0, FIRST_RUN, 8, 1))
        time.sleep(30)
