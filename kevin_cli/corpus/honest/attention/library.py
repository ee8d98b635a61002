# expect: correct
# says:
# family: library
"""torch's fused attention, which takes another way to the same numbers."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
