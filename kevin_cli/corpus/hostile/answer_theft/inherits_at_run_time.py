# expect: build_failed, crashed
# says: Model
# task: softmax
"""Makes its class from the reference's at import."""

import sys

import torch
from torch import nn

Base = getattr(sys.modules["__main__"], "Model")


class ModelNew(Base):
    def forward(self, x):
        return super().forward(x)
