"""Composite ATen operations, written out as pointwise steps and reductions: the one table of expansions.

Every formula is the one torch documents and computes: the softmax family subtracts the row maximum, norms take
the mean first and then the squared distances from it (never E[x²] - E[x]²), gelu uses erf. Half-precision
inputs are expanded in float32 and rounded once at the end, as torch's own kernels do.
"""

from __future__ import annotations

from functools import partial

from kevin_cli.policies.embedded.activations import (
    celu,
    elu,
    gelu,
    glu,
    hardshrink,
    hardsigmoid,
    hardswish,
    leaky_relu,
    log_sigmoid,
    mish,
    prelu,
    selu,
    silu,
    softplus,
    threshold,
)
from kevin_cli.policies.embedded.losses import (
    bce_with_logits,
    cosine_similarity,
    cross_entropy,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    negative_log_likelihood,
    pairwise_distance,
    smooth_l1_loss,
)
from kevin_cli.policies.embedded.norms import (
    batch_norm,
    deviation,
    extreme_of,
    group_norm,
    instance_norm,
    layer_norm,
    log_softmax,
    logsumexp,
    place_of,
    rms_norm,
    softmax,
    variance,
    variance_unbiased,
    vector_norm,
)
from kevin_cli.policies.embedded.operations import (
    Rule,
)

COMPOSITES: dict[str, Rule] = {
    "aten.softmax.int": softmax,
    "aten._softmax.default": lambda self, dim, half_to_float: softmax(self, dim),
    "aten.log_softmax.int": log_softmax,
    "aten._log_softmax.default": lambda self, dim, half_to_float: log_softmax(self, dim),
    "aten.logsumexp.default": logsumexp,
    "aten.var.default": lambda self, unbiased=True: variance(self, None, int(unbiased)),
    "aten.var.dim": variance_unbiased,
    "aten.var.correction": variance,
    "aten.std.correction": deviation,
    "aten.std.dim": lambda self, dim, unbiased=True, keepdim=False: deviation(self, dim, int(unbiased), keepdim),
    "aten.layer_norm.default": layer_norm,
    "aten.rms_norm.default": rms_norm,
    "aten.group_norm.default": group_norm,
    "aten.batch_norm.default": batch_norm,
    "aten.instance_norm.default": instance_norm,
    "aten.argmax.default": partial(place_of, "max"),
    "aten.argmin.default": partial(place_of, "min"),
    "aten.max.dim": partial(extreme_of, "max"),
    "aten.min.dim": partial(extreme_of, "min"),
    "aten.linalg_vector_norm.default": vector_norm,
    "aten.gelu.default": gelu,
    "aten.silu.default": silu,
    "aten.elu.default": elu,
    "aten.selu.default": selu,
    "aten.celu.default": celu,
    "aten.leaky_relu.default": leaky_relu,
    "aten.prelu.default": prelu,
    "aten.softplus.default": softplus,
    "aten.mish.default": mish,
    "aten.log_sigmoid.default": log_sigmoid,
    "aten.hardswish.default": hardswish,
    "aten.hardsigmoid.default": hardsigmoid,
    "aten.threshold.default": threshold,
    "aten.hardshrink.default": hardshrink,
    "aten.glu.default": glu,
    "aten.cross_entropy_loss.default": cross_entropy,
    "aten.nll_loss_nd.default": negative_log_likelihood,
    "aten.nll_loss.default": negative_log_likelihood,
    "aten.mse_loss.default": mse_loss,
    "aten.l1_loss.default": l1_loss,
    "aten.smooth_l1_loss.default": smooth_l1_loss,
    "aten.huber_loss.default": huber_loss,
    "aten.kl_div.default": kl_div,
    "aten.binary_cross_entropy_with_logits.default": bce_with_logits,
    "aten.cosine_similarity.default": cosine_similarity,
    "aten.pairwise_distance.default": pairwise_distance,
}
"""Operator name -> its expansion, with the operator's own parameter names."""
