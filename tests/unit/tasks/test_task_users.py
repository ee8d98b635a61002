"""Twenty modules the way users write them become tasks; `tests/slow/test_users_modules.py` takes them all the way."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "slow"))
from users_road import MODULES, USERS, User

from kevin_cli.harness.reference.load import load
from kevin_cli.harness.reference.lower import describe
from kevin_cli.records import to_plain
from kevin_cli.tasks import has_compute, lower, parse_target
from kevin_cli.tasks.target import Given


@pytest.fixture(autouse=True)
def _own_import_path() -> Iterator[None]:
    before = list(sys.path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "layers"]:
        del sys.modules[name]  # another test's
    yield
    sys.path[:] = before


@pytest.mark.parametrize("user", MODULES, ids=lambda user: user.name)
def test_a_users_module_becomes_a_task(user: User) -> None:
    target = parse_target(f"{USERS}/{user.target}", None, Given(recipes=user.options[1::2]))
    plain = to_plain(target)
    loaded = load(plain["path"], plain["class_name"], submodule=plain["submodule"], recipes=plain["recipes"])
    task = lower(target, describe(loaded, "cpu"))
    assert has_compute(task)
    assert task.graph is not None, task.graph_note
    assert task.contract.inputs
