"""What lands on disk: whole or not at all, over nothing of the user's, with its evidence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from package_samples import PYTHON_KERNEL, candidate_of

from kevin_cli.errors import InfraError, UsageError
from kevin_cli.package.write import write
from kevin_cli.types import Nans, Outcome, Task, TaskReport, Verdict


def test_a_folder_that_is_not_ours_is_left_alone(
    task: Task, verdict: Verdict, report: TaskReport, tmp_path: Path
) -> None:
    taken = tmp_path / "scale_kevin"
    taken.mkdir()
    (taken / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="was not written by kevin"):
        write(task, candidate_of(PYTHON_KERNEL), verdict, report, tmp_path)
    assert (taken / "thesis.txt").read_text() == "years of work"


def test_an_earlier_package_is_replaced_whole(task: Task, verdict: Verdict, report: TaskReport, tmp_path: Path) -> None:
    package = write(task, candidate_of(PYTHON_KERNEL), verdict, report, tmp_path)
    (package / "left_over.py").write_text("")
    write(task, candidate_of(PYTHON_KERNEL + "\n"), verdict, report, tmp_path)
    assert not (package / "left_over.py").exists()
    assert (package / "kernel.py").read_text() == PYTHON_KERNEL + "\n"


def test_nothing_but_the_package_is_left_beside_it(
    task: Task, verdict: Verdict, report: TaskReport, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    write(task, candidate_of(PYTHON_KERNEL), verdict, report, out)
    write(task, candidate_of(PYTHON_KERNEL), verdict, report, out)
    assert [path.name for path in out.iterdir()] == ["scale_kevin"]


def test_a_failure_half_way_leaves_the_earlier_package(
    task: Task, verdict: Verdict, report: TaskReport, tmp_path: Path
) -> None:
    package = write(task, candidate_of(PYTHON_KERNEL), verdict, report, tmp_path)
    Path(task.target.path).unlink()
    with pytest.raises(InfraError):
        write(task, candidate_of("other"), verdict, report, tmp_path)
    assert (package / "kernel.py").read_text() == PYTHON_KERNEL


def test_what_is_not_correct_is_never_written(task: Task, report: TaskReport, tmp_path: Path) -> None:
    wrong = Verdict(outcome=Outcome.MISMATCH, detail="wrong")
    with pytest.raises(ValueError, match="correct"):
        write(task, candidate_of(PYTHON_KERNEL), wrong, report, tmp_path)
    assert not (tmp_path / "scale_kevin").exists()


def test_the_evidence_states_baselines_seeds_and_what_was_not_checked(
    task: Task, verdict: Verdict, report: TaskReport, tmp_path: Path
) -> None:
    package = write(task, candidate_of(PYTHON_KERNEL), verdict, report, tmp_path)
    record = json.loads((package / "verification.json").read_text())
    assert record["candidate"] == candidate_of(PYTHON_KERNEL).digest
    assert record["verdict"]["seeds"] == [1, 2, 3, 4, 5]
    assert record["baselines_missing"] == {"compile": "no compiler that torch accepts"}
    assert record["weights"] == [["gain", "weight"]]
    text = (package / "VERIFICATION.md").read_text()
    assert "2.000 times (1.900 … 2.100, 95 %)" in text
    assert "against compile: not measured: no compiler that torch accepts" in text
    assert "forward-only" in text


@pytest.mark.parametrize(
    ("nans", "part", "words"),
    [
        (Nans.PROPAGATE, "Checked", "it comes out where the module's does"),
        (Nans.IGNORE, "Not checked", "told to ignore it"),
        (None, "Not checked", "can't be given any"),
    ],
)
def test_the_evidence_says_what_became_of_nan(
    task: Task, verdict: Verdict, report: TaskReport, tmp_path: Path, nans: Nans | None, part: str, words: str
) -> None:
    package = write(task, candidate_of(PYTHON_KERNEL), replace(verdict, nans=nans), report, tmp_path)
    sections = (package / "VERIFICATION.md").read_text().split("\n## ")
    (said,) = [section for section in sections if "NaN in the inputs" in section]
    assert said.startswith(part)
    assert words in said


def test_a_loss_against_a_baseline_is_written_as_one(
    task: Task, verdict: Verdict, report: TaskReport, tmp_path: Path
) -> None:
    lost = replace(verdict.comparisons[0], baseline="compile", median=0.8, low=0.78, high=0.82)
    package = write(
        task, candidate_of(PYTHON_KERNEL), replace(verdict, comparisons=(*verdict.comparisons, lost)), report, tmp_path
    )
    assert "against compile: slower; 0.800 times" in (package / "VERIFICATION.md").read_text()


def test_a_weak_check_is_said_at_the_top(task: Task, verdict: Verdict, report: TaskReport, tmp_path: Path) -> None:
    weak = replace(verdict, weak_check="zeros pass")
    package = write(task, candidate_of(PYTHON_KERNEL), weak, report, tmp_path)
    head = (package / "VERIFICATION.md").read_text().split("## ")[0]
    assert "zeros pass" in head
