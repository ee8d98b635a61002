# expect: rejected
# says: inherits from the reference
# task: softmax
"""Inherits from a reference that is not there."""

import torch
from torch import nn


class ModelNew(Model):
    def forward(self, x):
        return super().forward(x)
