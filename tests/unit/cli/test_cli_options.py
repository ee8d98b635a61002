"""The command line is put together from groups of options, each written once."""

from __future__ import annotations

import inspect

import pytest

from kevin_cli.app import VERBS
from kevin_cli.commands.options import Judging, Searching, Talking, takes
from kevin_cli.settings import Settings

TALK = set(Talking.__annotations__)


def test_a_verb_gets_the_values_of_its_groups_in_flags() -> None:
    @takes(Judging, Talking)
    def verb(target: str, *, flags: dict[str, object]) -> int:
        assert set(flags) == set(Judging.__annotations__) | TALK
        return len(target)

    given = {name: None for name in (*Judging.__annotations__, *TALK)}
    assert verb(target="model.py", **given) == len("model.py")
    assert "flags" not in inspect.signature(verb).parameters


@pytest.mark.parametrize("group", [Searching, Judging])
def test_options_of_groups_are_settings(group: type) -> None:
    assert set(group.__annotations__) <= set(Settings.model_fields)


@pytest.mark.parametrize("name", [name for name in VERBS if name not in ("completion", "schema")])
def test_every_verb_can_be_read_by_programs(name: str) -> None:
    assert set(inspect.signature(VERBS[name]).parameters) >= TALK
