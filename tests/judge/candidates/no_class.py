# expect: rejected
# says: no class ModelNew
"""The class has another name."""

from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x
