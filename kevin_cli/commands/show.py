"""`kevin show`: a recorded run again, turn by turn, from its folder alone; nothing is measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from kevin_cli.commands import session as sessions
from kevin_cli.commands.recorded import read_run
from kevin_cli.commands.report import Ended, optimize_object, print_object
from kevin_cli.errors import ExitCode
from kevin_cli.refine.git_branch import read_branch
from kevin_cli.refine.journal import RecordedRun, is_going_on
from kevin_cli.show.baselines import baselines_table, task_line
from kevin_cli.show.final import ending_block
from kevin_cli.show.screen import Screen
from kevin_cli.show.turns import turn_block
from kevin_cli.show.words import CAUTION

UNFINISHED = "unfinished"


def run(name: str, flags: Mapping[str, Any]) -> int:
    """Raises `UsageError` when there is no such run, or its record is damaged."""
    order = sessions.take_order(flags)
    recorded = read_run(name, order.settings.runs)
    if order.as_json:
        print_object(optimize_object(ended(recorded)))
    else:
        _replay(recorded, order.screen)
    return int(ExitCode.OK)


def _replay(recorded: RecordedRun, screen: Screen) -> None:
    header = recorded.header
    screen.result(Text(f"{recorded.id}, {header.created}, model: {header.policy}", style="dim"))
    screen.result(baselines_table(header.task, header.report) if header.report else task_line(header.task, ""))
    for trajectory in recorded.trajectories:
        for index in range(trajectory.num_shared, len(trajectory.turns)):
            screen.result(turn_block(trajectory, index, header.settings.baseline, log=True))
    result = recorded.result
    if result is None:
        screen.result(Text(_unfinished(recorded), style=f"bold {CAUTION}"))
        return
    class_name = header.task.class_name
    screen.result(ending_block(result, header.report, class_name=class_name, run=recorded.folder, output=None))


def _unfinished(recorded: RecordedRun) -> str:
    if is_going_on(recorded.folder):
        return "the run is still going on"
    return f"the run was killed; kevin runs resume {recorded.id} goes on"


def ended(recorded: RecordedRun) -> Ended:
    """The recorded run in the form of `optimize --json`; where its package went is not recorded."""
    header, ending = recorded.header, recorded.ending
    return Ended(
        task=header.task.name,
        device=header.task.contract.device.value,
        outcome=ending.outcome if ending else UNFINISHED,
        baseline=header.settings.baseline,
        policy=header.policy,
        note=ending.note if ending else "",
        report=header.report,
        result=recorded.result,
        turns=recorded.turns,
        run=recorded.folder.resolve(),
        branch=branch.name if (branch := read_branch(recorded.folder)) else None,
        price=header.settings.price,
    )
