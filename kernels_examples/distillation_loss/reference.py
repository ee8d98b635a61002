"""Knowledge distillation: the divergence between two softened distributions, one number in the end."""

import os

import torch
import torch.nn.functional as F
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
TOKENS, CLASSES = {"cpu": (512, 4096), "gpu": (8192, 8192)}[SIZE]


class Model(nn.Module):
    """KL(teacher || student) at a temperature, averaged over the batch."""

    def __init__(self, temperature: float):
        super().__init__()
        self.temperature = temperature

    def forward(self, student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
        log_student = F.log_softmax(student / self.temperature, dim=-1)
        teacher = torch.softmax(teacher / self.temperature, dim=-1)
        return F.kl_div(log_student, teacher, reduction="batchmean") * self.temperature**2


def get_inputs():
    return [torch.randn(TOKENS, CLASSES), torch.randn(TOKENS, CLASSES)]


def get_init_inputs():
    return [2.0]
