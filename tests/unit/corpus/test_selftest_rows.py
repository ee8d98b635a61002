"""What a row says about the judge, what rows come to, and how a report grows."""

import json
from dataclasses import replace

import pytest

from kevin_cli.commands import selftest
from kevin_cli.commands.selftest_judging import Found
from kevin_cli.commands.selftest_report import kept_rows, selftest_object, write_report
from kevin_cli.corpus import read_corpus
from kevin_cli.corpus.rows import count, judge_row, usual_is_right
from kevin_cli.errors import UsageError
from kevin_cli.show.selftest import counts_block, row_line
from kevin_cli.types import Comparison, DeviceKind, Outcome, Timing, Verdict

FLOOR = 0.02
ONE = Timing(median_us=10.0, low_us=10.0, high_us=10.0, num_samples=12)


def planted_of(kind, expected):
    return next(planted for planted in read_corpus([kind]) if planted.expect == frozenset(expected))


def verdict(outcome, speedup=None, detail="so it is"):
    compared = Comparison(
        baseline="eager",
        median=speedup or 1.0,
        low=(speedup or 1.0) - 0.01,
        high=(speedup or 1.0) + 0.01,
        noise_floor=FLOOR,
        baseline_timing=ONE,
        candidate_timing=ONE,
    )
    return Verdict(outcome=outcome, detail=detail, comparisons=(compared,) if speedup else ())


HONEST = planted_of("honest", ["correct"])
BUG = read_corpus(["wrong"])[0]
HARMLESS = next(p for p in read_corpus(["hostile"]) if p.expect == {"correct"} and not p.says)


@pytest.mark.parametrize(
    ("planted", "outcome", "speedup", "right"),
    [
        (HONEST, Outcome.CORRECT, 0.1, True),
        (HONEST, Outcome.MISMATCH, None, False),
        (BUG, Outcome.MISMATCH, None, True),
        (BUG, Outcome.CORRECT, 1.0, False),
        (BUG, Outcome.BUILD_FAILED, None, False),
        (BUG, Outcome.INFRA, None, False),
        (HARMLESS, Outcome.CORRECT, 1.0, True),
        (HARMLESS, Outcome.CORRECT, 1.5, False),
    ],
    ids=lambda value: str(getattr(value, "id", value)),
)
def test_a_row_is_right_when_the_outcome_is_expected_and_nothing_was_gained(planted, outcome, speedup, right):
    assert judge_row(planted, verdict(outcome, speedup), FLOOR).is_right is right


def test_a_verdict_that_does_not_say_why_is_not_right():
    planted = replace(BUG, says="new weights")
    assert not judge_row(planted, verdict(Outcome.MISMATCH, detail="off"), FLOOR).is_right
    assert judge_row(planted, verdict(Outcome.MISMATCH, detail="off after new weights"), FLOOR).is_right


def test_the_usual_judge_is_right_when_it_passes_honest_programs_only():
    honest = judge_row(HONEST, verdict(Outcome.CORRECT, 1.0), FLOOR)
    bug = judge_row(BUG, verdict(Outcome.MISMATCH), FLOOR)
    assert usual_is_right(replace(honest, usual="passed"))
    assert not usual_is_right(replace(honest, usual="lost"))
    assert usual_is_right(replace(bug, usual="failed"))
    assert not usual_is_right(replace(bug, usual="passed"))
    assert not usual_is_right(replace(bug, usual="lost")), "a judge that was killed stopped nobody"


def test_the_usual_judge_may_pass_a_harmless_program_but_not_believe_its_speed():
    harmless = replace(judge_row(HARMLESS, verdict(Outcome.CORRECT, 1.0), FLOOR), usual="passed")
    assert usual_is_right(replace(harmless, usual_speedup=1.0))
    assert not usual_is_right(replace(harmless, usual_speedup=1000.0))


def test_counts_are_by_kind_and_leave_out_what_the_usual_judge_was_not_asked():
    rows = [
        replace(judge_row(BUG, verdict(Outcome.MISMATCH), FLOOR), usual="passed"),
        judge_row(BUG, verdict(Outcome.CORRECT, 1.0), FLOOR),
    ]
    (found,) = count(rows)
    assert (found.num, found.num_right, found.num_usual, found.num_usual_right) == (2, 1, 1, 0)


def test_the_table_fits_eighty_columns_and_names_what_is_off():
    rows = [judge_row(BUG, verdict(Outcome.CORRECT, 1.0), FLOOR)]
    text = counts_block(count(rows), rows, 3, "bubblewrap", [0.02, 0.05])
    head, row, why = next(
        part for part in zip(*[text.splitlines()[at:] for at in range(3)], strict=False) if part[0].startswith("off")
    )
    assert row.split()[:2] == [BUG.id, "correct"]
    assert row[head.index("right") :].startswith("crashed or mismatch")
    assert why.strip() == "so it is"
    assert "2.0 % to 5.0 %" in text
    assert "3" in text.splitlines()[-1]
    assert all(len(line) <= 80 for line in text.splitlines() if BUG.id not in line)
    assert "expected" in row_line(1, 1, rows[0])


class Stopped:
    """A self-test that was ended after some rows."""

    def __init__(self, *rows):
        self.rows, self.reports = list(rows), {}


def test_what_was_judged_before_the_end_is_kept_and_not_judged_again(tmp_path):
    corpus = [HONEST, BUG, HARMLESS]
    right = judge_row(HONEST, verdict(Outcome.CORRECT, 1.0), FLOOR, "abc")
    off = judge_row(BUG, verdict(Outcome.CORRECT, 1.0), FLOOR, "abc")
    keeper = selftest.Keeper(Stopped(right, off), corpus, (), tmp_path, DeviceKind.CPU)
    keeper.write_soon()
    assert {row["id"] for row in json.loads((tmp_path / "cpu.json").read_text())["rows"]} == {HONEST.id, BUG.id}
    assert keeper.found().not_judged == (HARMLESS.id,)
    kept = kept_rows(tmp_path, DeviceKind.CPU, "abc")
    assert kept == (right,), "what was off is judged again"
    assert kept_rows(tmp_path, DeviceKind.CPU, "another commit") == ()
    later = selftest.Keeper(Stopped(replace(off, outcome="mismatch")), corpus, kept, tmp_path, DeviceKind.CPU)
    assert [row.id for row in later.found().rows] == [HONEST.id, BUG.id]


def test_a_report_grows_and_forgets_rows_of_programs_that_changed(tmp_path):
    first = judge_row(HONEST, verdict(Outcome.CORRECT, 1.0), FLOOR)
    changed = replace(judge_row(BUG, verdict(Outcome.MISMATCH), FLOOR), digest="of another source")
    found = Found(rows=(first, changed), reports=(), not_judged=())
    write_report(selftest_object(found, DeviceKind.CPU), found.rows, tmp_path, DeviceKind.CPU)
    second = Found(rows=(judge_row(HARMLESS, verdict(Outcome.CORRECT, 1.0), FLOOR),), reports=(), not_judged=())
    write_report(selftest_object(second, DeviceKind.CPU), second.rows, tmp_path, DeviceKind.CPU)
    told = json.loads((tmp_path / "cpu.json").read_text())
    assert {row["id"] for row in told["rows"]} == {HONEST.id, HARMLESS.id}
    assert BUG.id in told["not_judged"]
    assert told["all_right"] is False
    assert "not judged" in (tmp_path / "cpu.md").read_text()


def test_a_family_that_is_not_there_is_told_with_those_that_are():
    with pytest.raises(UsageError, match="no family nonsense") as caught:
        selftest.choose(DeviceKind.CPU, family="nonsense")
    assert "boundary" in caught.value.hint


def test_a_part_of_the_corpus_can_be_chosen():
    whole = selftest.choose(DeviceKind.CPU)
    assert {planted.kind for planted in selftest.choose(DeviceKind.CPU, ["honest"])} == {"honest"}
    assert {planted.family for planted in selftest.choose(DeviceKind.CPU, family="caching")} == {"caching"}
    assert len(selftest.choose(DeviceKind.CPU, every=7)) == -(-len(whole) // 7)
    assert not any(planted.device == "cuda" for planted in whole)
