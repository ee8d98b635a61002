"""Which trajectories advance, in which order, and when a search ends: serial, parallel, beam, targets, limits."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import refine_samples as samples

from kevin_cli.errors import UsageError
from kevin_cli.refine.journal import continue_run, load_run, open_run
from kevin_cli.refine.result import RunResult
from kevin_cli.refine.run import optimize
from kevin_cli.refine.search import goals, select
from kevin_cli.refine.settings import RunSettings
from kevin_cli.refine.until import read_until
from kevin_cli.types import Completion, Event, Limits, Roofline, Stage, Style, Task, Trajectory, Turn, Verdict

LIMIT = Roofline(limit_us=50.0, limited_by="memory", num_bytes=1, num_flops=0, bytes_per_s=1.0, flops_per_s=0.0)


def settings(**fields: object) -> RunSettings:
    return RunSettings(style=Style.GENERAL, **fields)  # type: ignore[arg-type]


class Speeds:
    """A policy and a judge in one: turn n of trajectory i is a kernel of a known speed (0: wrong)."""

    name = "speeds"

    def __init__(self, speeds: dict[tuple[int, int], float]) -> None:
        self._speeds = speeds
        self._by_digest: dict[str, float] = {}
        self.proposed: list[tuple[int, int]] = []

    async def propose(self, trajectory: Trajectory, limits: Limits) -> Completion:
        place = (trajectory.index, len(trajectory.turns))
        self.proposed.append(place)
        mark = f"{place[0]}.{place[1]}"
        self._by_digest[samples.candidate(mark).digest] = self._speeds.get(place, 0.0)
        await asyncio.sleep(0)
        return samples.said(samples.answer(mark), num_completion_tokens=10)

    async def judge(self, task: Task, candidate: object, *, final: bool = False, watch: object = None) -> Verdict:
        found = self._by_digest.get(candidate.digest, 0.0)  # type: ignore[attr-defined]
        return samples.correct(found) if found else samples.mismatch()

    async def close(self) -> None:
        """Nothing is open."""


def run(speeds: Speeds, chosen: RunSettings, **fields: object) -> RunResult:
    return asyncio.run(optimize(samples.task(), speeds, speeds, chosen, **fields))  # type: ignore[arg-type]


def made(*speeds: float) -> tuple[Turn, ...]:
    return tuple(samples.turn(n, samples.correct(s) if s else samples.mismatch()) for n, s in enumerate(speeds))


def trajectory(index: int, *speeds: float) -> Trajectory:
    return Trajectory(task=samples.task(), index=index, turns=made(*speeds))


# --- the order -------------------------------------------------------------------------------------


def test_serial_ends_one_trajectory_before_the_next_begins() -> None:
    speeds = Speeds({})
    run(speeds, settings(search="serial", num_turns=3, num_trajectories=2))
    assert speeds.proposed == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


def test_parallel_trajectories_take_turns() -> None:
    speeds = Speeds({})
    run(speeds, settings(search="parallel", num_turns=2, num_trajectories=3))
    assert speeds.proposed[:3] == [(0, 0), (1, 0), (2, 0)]
    assert len(speeds.proposed) == 6


def test_a_beam_keeps_the_fastest_kernels_not_the_last_ones() -> None:
    field = [trajectory(0, 3.0, 0.0), trajectory(1, 1.2, 1.3), trajectory(2, 0.0, 0.0), trajectory(3, 0.5, 2.0)]
    selection = select(field, settings(keep=2, copies=3), 1, next_index=4)
    assert selection.kept == (0, 3)
    assert [(b.trajectory, b.parent, b.num_turns) for b in selection.branches] == [
        (4, 0, 2),
        (5, 0, 2),
        (6, 3, 2),
        (7, 3, 2),
    ]


def test_equal_trajectories_are_kept_in_order_and_wrong_ones_count_nothing() -> None:
    field = [trajectory(0, 0.0), trajectory(1, 2.0), trajectory(2, 2.0), trajectory(3, 0.0)]
    assert select(field, settings(keep=3, copies=1), 1, next_index=4).kept == (1, 2, 0)


def test_the_published_beam_selects_after_every_four_turns() -> None:
    assert goals(settings(num_turns=8)) == [4, 8]
    assert goals(settings(num_turns=10)) == [4, 8, 10]
    assert goals(settings(num_turns=3)) == [3]


def test_a_beam_run_copies_four_of_sixteen_four_times() -> None:
    speeds = Speeds({(index, 1): 1.0 + index / 10 for index in range(16)})
    result = run(speeds, settings(search="beam", num_turns=8, num_trajectories=16))
    assert result.num_turns == 16 * 8
    copies = [t for t in result.trajectories if t.parent is not None]
    assert sorted({t.parent for t in copies if t.parent is not None}) == [12, 13, 14, 15]
    assert [len(t.turns) for t in result.trajectories if t.index < 12] == [4] * 12
    assert all((len(t.turns), t.num_shared, len(t.own_turns)) == (8, 4, 4) for t in copies)
    assert all(t.turns[:4] == result.trajectories[t.parent or 0].turns[:4] for t in copies)


def test_a_copy_is_asked_with_a_seed_of_its_own() -> None:
    chosen = settings()
    assert chosen.limits(3, 4).seed != chosen.limits(16, 4).seed


def test_a_selection_is_told() -> None:
    events: list[Event] = []
    chosen = settings(search="beam", num_turns=2, num_trajectories=2, round_turns=1, keep=1, copies=2)
    run(Speeds({(1, 0): 2.0}), chosen, watch=events.append)
    (told,) = [event for event in events if event.stage is Stage.SELECTED]
    assert (told.kept, told.copied) == ((1,), ((2, 1),))


# --- the record ------------------------------------------------------------------------------------


def test_a_beam_is_read_back_as_it_was(tmp_path: Path) -> None:
    chosen = settings(search="beam", num_turns=3, num_trajectories=4, round_turns=1, keep=2, copies=2)
    journal = open_run(samples.task(), policy="speeds", settings=chosen, root=tmp_path)
    result = run(Speeds({(i, t): 1.0 + i / 8 + t for i in range(16) for t in range(3)}), chosen, journal=journal)
    assert load_run(journal.folder).result == result
    assert len((journal.folder / "turns.jsonl").read_text().splitlines()) == result.num_turns == 12


@pytest.mark.parametrize("num_kept_lines", range(13))
def test_a_beam_that_was_killed_after_any_turn_goes_on_to_the_same_end(tmp_path: Path, num_kept_lines: int) -> None:
    chosen = settings(search="beam", num_turns=3, num_trajectories=4, round_turns=1, keep=2, copies=2)
    table = {(i, t): 1.0 + i / 8 + t for i in range(16) for t in range(3)}
    journal = open_run(samples.task(), policy="speeds", settings=chosen, root=tmp_path)
    whole = run(Speeds(table), chosen, journal=journal)
    lines = (journal.folder / "turns.jsonl").read_bytes().splitlines(keepends=True)
    (journal.folder / "turns.jsonl").write_bytes(b"".join(lines[:num_kept_lines]) + lines[-1][:-9])
    kept = (journal.folder / "selections.jsonl").read_bytes().splitlines(keepends=True)
    (journal.folder / "selections.jsonl").write_bytes(b"".join(kept[: max(0, (num_kept_lines - 1) // 4)]))
    recorded = load_run(journal.folder)
    again = Speeds(table)
    again._by_digest = {samples.candidate(f"{i}.{t}").digest: speed for (i, t), speed in table.items()}
    resumed = run(again, chosen, journal=continue_run(recorded), start=recorded)
    assert resumed.trajectories == whole.trajectories
    assert len(again.proposed) == 12 - num_kept_lines
    assert load_run(journal.folder).result == resumed


def test_a_completion_that_was_paid_is_not_paid_again(tmp_path: Path) -> None:
    class Dying(Speeds):
        async def judge(self, task: Task, candidate: object, *, final: bool = False, watch: object = None) -> Verdict:
            raise OSError("as if it were killed here")

    chosen = settings(num_turns=1)
    journal = open_run(samples.task(), policy="speeds", settings=chosen, root=tmp_path)
    with pytest.raises(OSError, match="killed"):
        run(Dying({}), chosen, journal=journal)
    journal.close()
    again = Speeds({})
    recorded = load_run(journal.folder)
    result = run(again, chosen, journal=continue_run(recorded), start=recorded)
    assert (again.proposed, result.num_turns) == ([], 1)
    assert list((journal.folder / "held").iterdir()) == []


def test_two_processes_do_not_write_one_run(tmp_path: Path) -> None:
    journal = open_run(samples.task(), policy="speeds", settings=settings(), root=tmp_path)
    with pytest.raises(UsageError, match="still going on"):
        continue_run(load_run(journal.folder))


# --- the end ---------------------------------------------------------------------------------------


def test_the_search_ends_when_a_candidate_reaches_the_target() -> None:
    speeds = Speeds({(0, 2): 1.6})
    result = run(speeds, settings(num_turns=8, until=read_until("1.5x")))
    assert (result.num_turns, result.ending.outcome) == (3, "faster")
    assert result.ending.note == "a candidate reached 1.5 times faster"


def test_the_interval_has_to_clear_the_target_not_the_median() -> None:
    assert run(Speeds({(0, 0): 1.52}), settings(num_turns=2, until=read_until("1.5x"))).num_turns == 2


def test_a_target_can_be_a_share_of_the_devices_limit() -> None:
    speeds = Speeds({(0, 0): 1.5, (0, 1): 1.9})
    result = run(speeds, settings(num_turns=8, until=read_until("90%")), limit=LIMIT)
    assert result.num_turns == 2


@pytest.mark.parametrize("text", ["fast", "1.5", "-2x", "0x", "101%", ""])
def test_what_is_no_target_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no target"):
        read_until(text)


def test_no_turn_begins_after_the_limit_of_turns() -> None:
    result = run(Speeds({}), settings(num_turns=8, num_trajectories=3, turn_limit=5))
    assert (result.num_turns, result.ending.outcome) == (5, "budget")
