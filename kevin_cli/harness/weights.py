"""Which parameter of the candidate is which of the reference: the weights map.

A candidate may name its parameters differently, since Kevin's rules forbid `nn` layers. Each tensor of
the reference is looked for by exact name; then by a unique common suffix and equal shape; then by equal
values, both sides having been constructed under the same seed. What stays ambiguous is an error with
the expected names in it. The map is a hypothesis: the integrity pass loads new weights through it and
the outputs have to follow, so a wrong map fails there and cannot pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kevin_cli.harness.wire import ParameterEntry
from kevin_cli.types import ParameterSpec

Pairs = tuple[tuple[str, str], ...]
COUNTERS = ("int64", "int32", "bool")
"""Buffers of these types (batch counters, masks, index tables) may be missing in a candidate."""


class UnmappableWeights(Exception):  # noqa: N818
    """The candidate's parameters can't be told apart; the message says which names are expected."""


@dataclass(frozen=True, slots=True)
class _Open:
    """What is not mapped yet."""

    candidate: tuple[ParameterEntry, ...]
    reference: tuple[ParameterSpec, ...]

    def without(self, pairs: Pairs) -> _Open:
        ours, theirs = {pair[0] for pair in pairs}, {pair[1] for pair in pairs}
        return _Open(
            tuple(entry for entry in self.candidate if entry.name not in ours),
            tuple(spec for spec in self.reference if spec.name not in theirs),
        )


def map_weights(
    candidate: Sequence[ParameterEntry], reference: Sequence[ParameterSpec], hashes: Mapping[str, str]
) -> Pairs:
    """(candidate name, reference name) for every tensor of the reference.

    `hashes` are sha256 of the reference's values after construction, by name. Raises
    `UnmappableWeights`.
    """
    left = _Open(tuple(candidate), tuple(reference))
    found: Pairs = ()
    for rule in (_by_name, _by_suffix, _by_only_shape, lambda open_: _by_values(open_, hashes)):
        pairs = rule(left)
        found, left = (*found, *pairs), left.without(pairs)
    missing = [spec for spec in left.reference if not (spec.kind == "buffer" and spec.dtype in COUNTERS)]
    if missing:
        raise UnmappableWeights(_explain(missing, left.candidate))
    return found


def _fits(entry: ParameterEntry, spec: ParameterSpec) -> bool:
    return entry.shape == spec.shape and entry.dtype == spec.dtype


def _by_name(left: _Open) -> Pairs:
    specs = {spec.name: spec for spec in left.reference}
    return tuple(
        (entry.name, entry.name) for entry in left.candidate if entry.name in specs and _fits(entry, specs[entry.name])
    )


def _by_suffix(left: _Open) -> Pairs:
    """`weight` for `norm.weight`, `ln.weight` for `norm.weight`, `norm_weight` for `norm.weight`."""

    def same_suffix(entry: ParameterEntry, spec: ParameterSpec) -> bool:
        ours, theirs = entry.name.replace(".", "_"), spec.name.replace(".", "_")
        return ours.endswith(f"_{theirs}") or theirs.endswith(f"_{ours}") or ours == theirs

    whole = _unique(left, lambda entry, spec: _fits(entry, spec) and same_suffix(entry, spec))
    rest = left.without(whole)
    return (*whole, *_unique(rest, lambda entry, spec: _fits(entry, spec) and _last(entry.name) == _last(spec.name)))


def _last(name: str) -> str:
    return name.replace(".", "_").rsplit("_", 1)[-1]


def _by_only_shape(left: _Open) -> Pairs:
    """The only one of its shape on both sides."""
    return _unique(left, _fits)


def _by_values(left: _Open, hashes: Mapping[str, str]) -> Pairs:
    return _unique(left, lambda entry, spec: _fits(entry, spec) and entry.sha256 == hashes.get(spec.name))


def _unique(left: _Open, match: Callable[[ParameterEntry, ParameterSpec], bool]) -> Pairs:
    """Pairs in which each side has exactly one match on the other."""
    pairs = [(entry.name, spec.name) for entry in left.candidate for spec in left.reference if match(entry, spec)]
    ours, theirs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return tuple(pair for pair in pairs if ours.count(pair[0]) == 1 and theirs.count(pair[1]) == 1)


def _explain(missing: Iterable[ParameterSpec], unused: Iterable[ParameterEntry]) -> str:
    expected = ", ".join(f"{spec.name} {list(spec.shape)} {spec.dtype}" for spec in missing)
    present = ", ".join(f"{entry.name} {list(entry.shape)} {entry.dtype}" for entry in unused)
    return (
        f"the weights cannot be mapped: ModelNew needs parameters with these names: {expected}; "
        f"left over in the candidate: {present or 'none'}"
    )
