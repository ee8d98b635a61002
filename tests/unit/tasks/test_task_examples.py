"""The example tasks are tasks: they load, trace, discriminate, and their shown source stands alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from kevin_cli.harness.reference.load import load
from kevin_cli.harness.reference.lower import describe
from kevin_cli.harness.reference.source import prompt_source
from kevin_cli.tasks import has_compute, lower, parse_target

EXAMPLES = Path(__file__).parents[3] / "kernels_examples"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/reference.py"))


@pytest.fixture(autouse=True)
def _cpu_sizes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("KEVIN_EXAMPLE_SIZE", "cpu")
    before = list(sys.path)
    yield
    sys.path[:] = before


def test_there_are_at_least_ten_examples() -> None:
    assert len(NAMES) >= 10


@pytest.mark.parametrize("name", NAMES)
def test_an_example_becomes_a_task_with_a_graph(name: str) -> None:
    target = parse_target(str(EXAMPLES / name / "reference.py"))
    task = lower(target, describe(load(target.path), "cpu"))
    assert task.name == name
    assert task.graph is not None, task.graph_note
    assert has_compute(task)


@pytest.mark.parametrize("name", NAMES)
def test_the_source_that_a_prompt_shows_computes_the_same(name: str) -> None:
    loaded = load(EXAMPLES / name / "reference.py")
    source = prompt_source(loaded)
    names: dict[str, Any] = {}
    exec(source, names)
    torch.manual_seed(1)
    original = loaded.construct().eval()
    shown = names["Model"](*loaded.init_args).eval()
    shown.load_state_dict(original.state_dict())
    args, _ = loaded.draw_inputs()
    with torch.no_grad():
        torch.testing.assert_close(shown(*args), original(*args), rtol=0, atol=0)
    assert "get_inputs" not in source
    assert "environ" not in source


@pytest.mark.parametrize("name", NAMES)
def test_both_sizes_of_an_example_are_read_from_the_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small = load(EXAMPLES / name / "reference.py").module
    monkeypatch.setenv("KEVIN_EXAMPLE_SIZE", "gpu")
    large = load(EXAMPLES / name / "reference.py").module
    sizes = [{key: value for key, value in vars(m).items() if key.isupper() and key != "SIZE"} for m in (small, large)]
    assert sizes[0].keys() == sizes[1].keys()
    assert sizes[0] != sizes[1]
