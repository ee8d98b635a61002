"""The published schemas are those of the types, and what kevin prints and records fits them."""

from __future__ import annotations

import json

import pydantic
import pytest
import show_samples as samples
import test_show_report as reports

from kevin_cli.commands import show
from kevin_cli.commands.report import Ended, check_object, optimize_object
from kevin_cli.commands.schemas import FOLDER, CheckObject, OptimizeObject, kinds, names, text_of


@pytest.mark.parametrize("name", sorted(kinds()))
def test_the_file_is_what_the_types_say(name: str) -> None:
    assert (FOLDER / f"{name}.json").read_text() == text_of(name), "make schemas writes it anew"


def test_no_file_is_left_over() -> None:
    assert names() == sorted(kinds())


def test_what_optimize_prints_fits_its_schema() -> None:
    run = reports.recorded(reports.FASTER)
    ended = Ended(task="t", device="cpu", outcome="faster", baseline="eager", policy="p", report=run.header.report)
    adapter = pydantic.TypeAdapter(OptimizeObject)
    for thing in (ended, Ended(**{**fields(ended), "result": run.result, "run": run.folder, "branch": "kevin/x"})):
        found = optimize_object(thing)
        adapter.validate_json(json.dumps(found), strict=True)
        assert OptimizeObject.__dataclass_fields__.keys() == found.keys(), "a key is not in the schema"


def test_a_killed_run_has_its_turns_and_what_they_cost() -> None:
    killed = reports.recorded(None)
    found = optimize_object(show.ended(killed))
    assert (found["outcome"], found["turns"]) == ("unfinished", len(killed.turns))
    assert found["turns"] == 9
    pydantic.TypeAdapter(OptimizeObject).validate_json(json.dumps(found))


def fields(ended: Ended) -> dict[str, object]:
    return {name: getattr(ended, name) for name in Ended.__dataclass_fields__}


@pytest.mark.parametrize("verdict", [samples.correct(1.5, 0.9), samples.FAILED])
def test_what_check_prints_fits_its_schema(verdict: object) -> None:
    found = check_object(samples.TASK, verdict, samples.REPORT, "eager")  # type: ignore[arg-type]
    adapter = pydantic.TypeAdapter(CheckObject)
    adapter.validate_json(json.dumps(found), strict=True)
    assert CheckObject.__dataclass_fields__.keys() == found.keys(), "a key is not in the schema"
