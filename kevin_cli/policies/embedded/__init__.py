"""The embedded proposer: reads a task's graph and writes fused CUDA or C++ kernels. No weights, no torch."""

from kevin_cli.policies.embedded.policy import EmbeddedPolicy, explain

__all__ = ["EmbeddedPolicy", "explain"]
