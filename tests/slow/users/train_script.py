"""A script that trains when it is run."""

import argparse

import torch
from torch import nn, optim


class Mish(nn.Module):
    def forward(self, x):
        return x * torch.tanh(nn.functional.softplus(x))


def get_inputs():
    return [torch.randn(512, 512)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    options = parser.parse_args()
    model = nn.Sequential(nn.Linear(8, 8), Mish())
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for _ in range(options.steps):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
