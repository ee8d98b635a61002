"""JUnit's form: counts, the candidate's failures apart from ours, nothing that XML can't hold."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from kevin_cli.commands.formats import Case, junit


def test_failures_errors_and_skips_are_counted_apart() -> None:
    cases = [
        Case(name="a", wall_s=1.5),
        Case(name="b", failure="mismatch: output 0"),
        Case(name="c", error="infra: the disk is full"),
        Case(name="d", skipped="no candidate"),
    ]
    (suite,) = ET.fromstring(junit("kevin bench", cases).split("\n", 1)[1])
    assert suite.attrib == {
        "name": "kevin bench", "tests": "4", "failures": "1", "errors": "1", "skipped": "1", "time": "1.500"
    }  # fmt: skip
    assert [child.tag for case in suite for child in case] == ["failure", "error", "skipped"]


def test_what_a_candidate_printed_can_not_break_the_document() -> None:
    evil = "\x1b[31m]]></system-out>\x00 & <b> \ud800"
    (suite,) = ET.fromstring(junit("x", [Case(name="a", failure=evil, text=evil)]).split("\n", 1)[1])
    (case,) = suite
    assert [child.tag for child in case] == ["failure", "system-out"]
    assert "]]></system-out>" in (case[1].text or "")
