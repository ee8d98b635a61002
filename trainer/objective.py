"""The published objective in plain numbers: what the trainer's loss has to come to.

The training itself runs TRL's tensors (`grpo.py`); these functions state, on lists of floats, what they must
compute, and a test holds the two together on a real micro-batch. Each names its source.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Rows = Sequence[Sequence[float]]
"""One list for each sample, one number for each token of its completion."""


def clipped(ratio: float, advantage: float, low: float = 0.2, high: float = 0.28) -> float:
    """−min(ρ·A, clip(ρ, 1 − low, 1 + high)·A): PPO's surrogate (arXiv 1707.06347, eq. 7) with DAPO's wider
    upper side (arXiv 2503.14476, section 3.1); Kevin: 0.2 and 0.28."""
    bounded = min(max(ratio, 1.0 - low), 1.0 + high)
    return -min(ratio * advantage, bounded * advantage)


def kl_estimate(logprob: float, reference_logprob: float) -> float:
    """exp(r) − r − 1 with r = reference − policy: the unbiased, positive estimate (Schulman, Approximating KL
    Divergence, 2020). Kevin's final run uses coefficient 0, so no reference model is held."""
    difference = reference_logprob - logprob
    return math.exp(difference) - difference - 1.0


def constant_length_loss(losses: Rows, max_tokens: int) -> float:
    """Σ_tokens / max_tokens, then the mean over samples (Dr. GRPO, arXiv 2503.20783): a long answer is not worth
    less a token than a short one. Samples that fill up short trajectories count in the mean with no tokens."""
    return math.fsum(math.fsum(row) for row in losses) / (len(losses) * max_tokens)


def batch_loss(
    logprobs: Rows, old_logprobs: Rows, advantages: Sequence[float], max_tokens: int, low: float, high: float
) -> float:
    """The whole loss of a micro-batch without KL: one advantage a sample, one ratio a token."""
    losses = [
        [clipped(math.exp(new - old), advantage, low, high) for new, old in zip(row, old_row, strict=True)]
        for row, old_row, advantage in zip(logprobs, old_logprobs, advantages, strict=True)
    ]
    return constant_length_loss(losses, max_tokens)


def truncated_importance(logprob: float, sampled_logprob: float, cap: float = 2.0) -> float:
    """min(π_train / π_sampler, cap) of one token: truncated importance sampling (Ionides 2008; for rollouts by a
    different engine: verl #2953). A product over a long sequence would be 0 or infinite; this is per token."""
    return min(math.exp(logprob - sampled_logprob), cap)


def clip_scale(norm: float, max_norm: float) -> float:
    """What gradients are multiplied with: 1, or max_norm / norm above it (Pascanu et al., arXiv 1211.5063).
    Kevin: 0.05, which with the constant length is what held off collapse."""
    return 1.0 if norm <= max_norm else max_norm / norm


def completion_limit(batch: int, limit: int, extended: int, extend_at: int) -> int:
    """Longest completion in batch `batch` (from 0): Kevin raises 16K to 22K at batch 30, after DeepScaleR.

    The limit also normalises the loss, so raising it lowers every token's weight by the same factor.
    """
    return extended if extended and batch >= extend_at else limit


def update_of(step: int, updates_per_batch: int) -> tuple[int, int]:
    """(batch, update) of an optimizer step, from 0: two steps a batch, the second one off-policy (Kevin §3)."""
    return divmod(step, updates_per_batch)
