"""kevin makes a PyTorch module faster: a model writes kernels, a judge verifies and times them."""

__version__ = "0.1.0"
