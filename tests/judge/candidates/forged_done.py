# expect: mismatch
# says: 
"""Says that the call is finished without having computed anything."""

import os
import struct
import sys
import torch
from torch import nn


DONE = 10


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.calls = 0

    def forward(self, x):
        for fd in (int(sys.argv[2]),):
            for sequence in range(4, 5):
                os.write(fd, struct.pack("<4sHHIQQ", b"KVN1", DONE, 0, sequence, 8, 1))
        import time

        time.sleep(30)
