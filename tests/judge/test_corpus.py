"""The planted corpus before the judge: every bug and every hostile program is stopped, every honest one passes.

A sample runs by default; `make judge` runs all of it. After each hostile program comes the oracle: the judge lives,
an honest program passes with the time that it had before, nothing changed on disk and nothing is left running.
"""

import asyncio
import sys
from dataclasses import replace

import pytest
from corpus_court import SAMPLE, Court, Surroundings, corpus_for

from kevin_cli.corpus import HERE
from kevin_cli.harness.judge import LocalJudge
from kevin_cli.harness.judge_settings import JudgeSettings
from kevin_cli.harness.usual_side import UsualSide
from kevin_cli.types import DeviceKind, Isolation, Outcome

pytestmark = pytest.mark.timeout(1200)
"""The first test of a task waits until everything of that task is built."""
DEVICE = DeviceKind.CPU
CALL_TIMEOUT_S = 8.0
SAME_TIME = 1.5
"""An honest program's ratio to eager may differ by this factor between two judgements on a shared machine; a
hostile program that slows the baseline or its successor down moves it by more."""
CORPUS = {kind: corpus_for(kind, DEVICE.value) for kind in ("wrong", "hostile", "honest")}


def programs(kind):
    """All of a kind; what is not in the sample carries the marker `corpus`."""
    return [
        pytest.param(
            planted, id=planted.id.removeprefix(f"{kind}/"), marks=() if planted.id in SAMPLE else pytest.mark.corpus
        )
        for planted in CORPUS[kind]
    ]


def test_the_sample_is_there():
    assert set(SAMPLE) <= {planted.id for found in CORPUS.values() for planted in found}


@pytest.fixture(scope="module")
def court(tmp_path_factory, request):
    """One judge and the usual one; everything that this run has selected is built task by task."""
    cache = tmp_path_factory.mktemp("corpus")
    home = tmp_path_factory.mktemp("usual")
    settings = JudgeSettings(
        device=DEVICE,
        cache=cache,
        python=sys.executable,
        call_timeout_s=CALL_TIMEOUT_S,
        build_timeout_s=240.0,
        compiled_baseline=False,
        timing_budget_s=1.0,
    )
    usual = UsualSide(sys.executable, DEVICE, home, (HERE / "tasks", cache), CALL_TIMEOUT_S)
    judge = LocalJudge(settings)
    with asyncio.Runner() as runner:
        runner.run(judge.__aenter__())
        try:
            found = Court(runner, judge, settings, usual)
            selected = [
                item.callspec.params.get("planted") for item in request.session.items if hasattr(item, "callspec")
            ]
            found.expect([planted for planted in selected if planted is not None])
            found.expect([control_of(planted) for planted in selected if planted is not None and planted.control])
            yield found
        finally:
            runner.run(usual.close())
            runner.run(judge.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def honest_before(court):
    """An honest program's ratio to eager, by task, before anything hostile ran there."""
    known = {}

    def ratio(task):
        if task not in known:
            known[task] = honest_ratio(court)
        return known[task]

    return ratio


def honest_ratio(court):
    verdict = court.honest_verdict()
    assert verdict.outcome is Outcome.CORRECT, f"an honest program fails: {verdict.detail}\n{verdict.log}"
    return verdict.against("eager").median


def control_of(planted):
    """The honest program that a bug was planted in, with the bug's witness."""
    return replace(planted, source=(HERE / "honest" / planted.task / f"{planted.control}.py").read_text())


def explain(row, verdict):
    speed = f", {row.speedup:.2f}x" if row.speedup else ""
    return f"{row.outcome}{speed}, expected {' or '.join(row.expected)}: {verdict.detail}\n{verdict.log}"


@pytest.mark.parametrize("planted", programs("wrong"))
def test_a_planted_bug_is_stopped(court, planted):
    row, verdict = court.row(planted)
    assert row.is_right, explain(row, verdict)
    assert verdict.detail, "the report says why"


@pytest.mark.parametrize("planted", programs("wrong"))
def test_a_planted_bug_is_wrong_on_its_witness_and_its_control_is_not(court, planted):
    assert court.usual("witness", control_of(planted)).answer == "passed"
    found = court.usual("witness", planted)
    assert found.answer == "failed", "the change makes no difference on its witness"
    assert "call" in found.detail, f"it fails otherwise than by its answer: {found.detail}"


@pytest.mark.parametrize("planted", programs("hostile"))
def test_a_hostile_program_gets_nothing_and_leaves_nothing_behind(court, honest_before, planted, tmp_path):
    court.turn_to(planted.task)
    before, surroundings = honest_before(planted.task), Surroundings()
    row, verdict = court.row(planted)
    if planted.family == "environment" and verdict.isolation is not Isolation.BUBBLEWRAP:
        pytest.skip(f"candidates are contained by {verdict.isolation.value} only")
    assert row.is_right, explain(row, verdict)
    assert verdict.detail, "the report says why"
    assert before / SAME_TIME < honest_ratio(court) < before * SAME_TIME, "the next honest program has another time"
    assert surroundings.changes() == []


@pytest.mark.parametrize("planted", programs("honest"))
def test_an_honest_program_passes(court, planted):
    row, verdict = court.row(planted)
    assert row.is_right, explain(row, verdict)


def test_the_usual_judge_passes_what_it_should_and_more(court):
    """The comparison is fair: it passes an honest program, stops a plain bug and misses a subtle one."""
    by_id = {planted.id: planted for found in CORPUS.values() for planted in found}
    assert court.usual("judge", by_id["honest/scale_relu/rows"]).answer == "passed"
    assert court.usual("judge", by_id["wrong/scale_relu/leaves_the_last_row"]).answer == "failed"
    assert court.usual("judge", by_id["wrong/scale_relu/ignores_the_bias"]).answer == "passed"
