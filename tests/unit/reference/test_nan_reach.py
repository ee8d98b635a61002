"""A NaN must not be lost; where right kernels differ in what else it touches, they are all right."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from kevin_cli.harness.reference import check
from kevin_cli.harness.reference.nan_reach import excuse, reach

NAN = float("nan")


def causal(values: torch.Tensor) -> list[torch.Tensor]:
    """Each row is the mean of the rows up to it; the later ones have the weight 0."""
    weights = torch.ones(4, 4).tril()
    return [weights / weights.sum(1, keepdim=True) @ values]


def reached_by(run, x: torch.Tensor) -> torch.Tensor:
    (found,) = reach(SimpleNamespace(run=lambda inputs: run(*inputs)), [x])
    return found


@pytest.fixture
def x() -> torch.Tensor:
    values = torch.arange(12.0).reshape(4, 3) - 5
    values[2, 1] = NAN
    return values


def test_it_reaches_what_depends_on_its_place(x: torch.Tensor) -> None:
    assert reached_by(causal, x)[:, 1].tolist() == [False, False, True, True]
    assert not reached_by(causal, x)[:, [0, 2]].any()


@pytest.mark.parametrize("run", [lambda x: [x.relu()], lambda x: [x.amax(0)], lambda x: [x.argmax(0)]])
def test_a_maximum_depends_on_it_too(x: torch.Tensor, run) -> None:
    assert reached_by(run, x).any()


def test_a_kernel_that_leaves_out_what_is_masked_is_right(x: torch.Tensor) -> None:
    (own,) = causal(x)
    assert own[0, 1].isnan(), "0 * NaN"
    skips = own.clone()
    skips[:2, 1] = 1.0
    assert torch.equal(excuse(skips, own, reached_by(causal, x)).isnan(), own.isnan())


def test_a_kernel_that_spreads_it_is_right(x: torch.Tensor) -> None:
    (own,) = causal(x)
    spreads = own.clone()
    spreads[:, 0] = NAN
    assert torch.equal(excuse(spreads, own, reached_by(causal, x))[:, 0], own[:, 0])


def test_a_kernel_that_loses_it_stays_wrong(x: torch.Tensor) -> None:
    (own,) = causal(x)
    loses = own.nan_to_num(0.0)
    assert excuse(loses, own, reached_by(causal, x))[2:, 1].tolist() == [0.0, 0.0]


def test_an_index_is_judged_where_it_depends_on_it(x: torch.Tensor) -> None:
    own, given = torch.tensor([3, 2, 3]), torch.tensor([3, 3, 3])
    reached = reached_by(lambda x: [x.argmax(0)], x)
    assert excuse(given, own, reached).tolist() == [3, 3, 3]


@pytest.mark.parametrize(("users", "num_excused"), [(NAN, 0), (0.0, 1)], ids=["NaN", "numbers"])
def test_only_a_nan_that_was_planted_excuses_anything(
    x: torch.Tensor, monkeypatch: pytest.MonkeyPatch, users: float, num_excused: int
) -> None:
    subject = SimpleNamespace(run=lambda inputs: causal(*inputs))
    exact = SimpleNamespace(how="", run=lambda inputs: SimpleNamespace(how="", outputs=causal(*inputs)))
    monkeypatch.setattr(check, "Reference64", lambda subject: exact)
    monkeypatch.setattr(check, "measure_levels", lambda *_: ())
    checker = check.Checker(subject)
    checker.learn([torch.full((4, 3), users)])
    assert len(checker.answer([x]).reached) == num_excused
