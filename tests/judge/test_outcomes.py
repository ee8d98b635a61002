"""Every candidate in `candidates/` meets its outcome, and the judge goes on as if nothing had happened.

The first line of a candidate says which outcome is right, the second what the verdict has to say.
"""

from pathlib import Path

import pytest

from kevin_cli.types import Outcome

CANDIDATES = sorted((Path(__file__).parent / "candidates").glob("*.py"))


def expectation(path: Path) -> tuple[set[str], str]:
    first, second, *_ = path.read_text().splitlines()
    outcomes = first.removeprefix("# expect:").replace(" ", "").split(",")
    return set(outcomes), second.removeprefix("# says:").strip()


@pytest.mark.parametrize("path", CANDIDATES, ids=lambda path: path.stem)
def test_the_candidate_meets_its_outcome(bench, path):
    outcomes, says = expectation(path)
    verdict = bench.verdict(path.read_text())
    assert verdict.outcome.value in outcomes, f"{verdict.detail}\n{verdict.log}"
    assert says in f"{verdict.detail}\n{verdict.log}"
    assert bool(verdict.comparisons) == verdict.is_correct


def test_every_outcome_that_a_candidate_can_have_is_covered():
    covered = {outcome for path in CANDIDATES for outcome in expectation(path)[0]}
    assert covered == {outcome.value for outcome in Outcome} - {Outcome.NO_CODE.value, Outcome.INFRA.value}
