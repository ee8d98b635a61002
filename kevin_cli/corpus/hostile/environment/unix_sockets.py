# expect: correct
# says:
# task: scale_relu
"""Tries the sockets of services on this machine; it complains when one answers."""

import os
import socket

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/dbus/system_bus_socket", os.environ.get("SSH_AUTH_SOCK", "")):
            with socket.socket(socket.AF_UNIX) as end:
                assert not path or end.connect_ex(path) != 0, path
        return torch.relu(x * self.weight + self.bias)
