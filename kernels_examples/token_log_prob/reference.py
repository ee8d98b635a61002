"""Log-probabilities of the chosen tokens, as in reinforcement learning: a row reduced, one entry picked."""

import os

import torch
import torch.nn.functional as F
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
TOKENS, VOCABULARY = {"cpu": (256, 16384), "gpu": (4096, 32768)}[SIZE]


class Model(nn.Module):
    """log_softmax(logits / temperature) at each row's token, zero where the mask is off."""

    def __init__(self, temperature: float):
        super().__init__()
        self.temperature = temperature

    def forward(self, logits: torch.Tensor, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        log_probs = F.log_softmax(logits / self.temperature, dim=-1)
        picked = log_probs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
        return torch.where(mask, picked, 0.0)


def get_inputs():
    return [torch.randn(TOKENS, VOCABULARY), torch.randint(0, VOCABULARY, (TOKENS,)), torch.rand(TOKENS) > 0.2]


def get_init_inputs():
    return [0.8]
