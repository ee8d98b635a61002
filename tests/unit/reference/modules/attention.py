import torch
from torch import nn


class Model(nn.Module):
    """Positions, a causal mask and sorted offsets: inputs whose values hang together."""

    def forward(self, x, mask, positions, offsets):
        scores = (x @ x.t()).masked_fill(~mask, -torch.inf)
        return torch.softmax(scores, -1)[positions] + offsets.diff().float()


def get_inputs():
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), torch.randint(0, 5, (32,)).cumsum(0)])
    return [torch.randn(32, 16), torch.ones(32, 32).tril().bool(), torch.randperm(32), offsets]
