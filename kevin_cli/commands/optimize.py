"""`kevin optimize`: the main job, from a file to a verified extension, one step after another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from kevin_cli.commands import session as sessions
from kevin_cli.commands.pooled import PooledJudge, open_pool, refuse_shared
from kevin_cli.commands.report import Ended, optimize_object, print_object
from kevin_cli.commands.serve import wish_of
from kevin_cli.commands.session import Order, Session, TaskJudge
from kevin_cli.errors import EndpointError, ExitCode, MachineError, NothingToOptimizeError, UsageError
from kevin_cli.harness.roofline import why_no_room
from kevin_cli.package.faces import offered
from kevin_cli.package.sources import digest_of, local_imports
from kevin_cli.package.write import package_path, refuse_foreign, write
from kevin_cli.policies.choose import Choice, choose
from kevin_cli.policies.endpoint import place
from kevin_cli.policies.intervals import DEVICE_LOG
from kevin_cli.policies.sharing import Around, Pausable, Sharing
from kevin_cli.refine.git_branch import Branch, Follower, read_branch, start_branch
from kevin_cli.refine.journal import Journal, RecordedRun, continue_run, load_run, open_run
from kevin_cli.refine.ledger import Price, read_price, total_usage
from kevin_cli.refine.prompt import (
    Setting,
    answer_budget,
    answer_timeout_s,
    opens_think,
    prompt_budget,
    refuse_templates,
    renderer,
)
from kevin_cli.refine.result import RunResult, why_silent
from kevin_cli.refine.run import optimize as run_loop
from kevin_cli.refine.settings import RunSettings
from kevin_cli.refine.until import read_until
from kevin_cli.settings import Settings
from kevin_cli.show.final import ending_block
from kevin_cli.show.live import Progress
from kevin_cli.show.usage import sharing_line, usage_line
from kevin_cli.tasks.names import task_name
from kevin_cli.types import DeviceKind, Event, Pause, Policy, Rules, Target, Task, TaskReport

EXIT_CODES = {
    "faster": ExitCode.OK,
    "no_gain": ExitCode.NOT_BETTER,
    "nothing_to_optimize": ExitCode.NOTHING_TO_DO,
    "budget": ExitCode.LIMIT_REACHED,
    "interrupted": ExitCode.INTERRUPTED,
}


def run(target: str, flags: Mapping[str, Any]) -> int:
    """Returns the exit code. Raises `KevinError` for what the user should read."""
    order = sessions.take_order(flags)
    return tell(order, search(order, sessions.find_target(target, order)))


def resume(order: Order, run: RecordedRun) -> int:
    """Go on with a recorded run, by the settings in `order`."""
    return tell(order, search(order, sessions.recorded_target(run.header.task.target, order.settings), run))


def tell(order: Order, story: Coroutine[Any, Any, Ended]) -> int:
    ended = sessions.run_to_end(story)
    if order.as_json:
        print_object(optimize_object(ended))
    return int(EXIT_CODES[ended.outcome])


async def search(order: Order, target: Target, start: RecordedRun | None = None) -> Ended:
    settings = order.settings
    refuse_unpackable(target)
    price_of(settings)
    refuse_unreachable(settings)
    sessions.use_gpus(settings)
    device = sessions.find_device(settings, target, order.screen)
    choice = await choose_model(settings, device)
    refuse_shared(settings, shares_device=choice.shares_device)
    for line in choice.plan:
        order.screen.say(line)
    try:
        return await _with_judge(order, target, device, choice, start)
    except NothingToOptimizeError as error:
        if not order.as_json:
            raise
        return Ended(
            task=task_name(target),
            device=device.value,
            outcome="nothing_to_optimize",
            baseline=settings.baseline,
            policy=choice.reason,
            note=error.message,
        )


async def _with_judge(
    order: Order, target: Target, device: DeviceKind, choice: Choice, start: RecordedRun | None
) -> Ended:
    sharing = Sharing()
    async with _judge_of(order.settings, target, device, choice.rules, sharing.measuring) as judge:
        task = await sessions.lower_target(judge, target)
        if start:
            refuse_changed(start, task)
        refuse_foreign(package_path(task, order.settings.out))
        session = await sessions.open_session(judge, task, order.screen)
        if why := why_no_room(session.report, order.settings.baseline):
            return no_room(order, choice.reason, task, session.report, why)
        order.screen.say(f"model: {choice.reason}")
        return await _search(order, choice, session, sharing, start)


@asynccontextmanager
async def _judge_of(
    settings: Settings, target: Target, device: DeviceKind, rules: Rules, pause: Pause
) -> AsyncIterator[TaskJudge]:
    """In this process, or a pool with this task on every GPU."""
    if not settings.pool:
        async with sessions.open_judge(settings, target, device, rules, pause) as local:
            yield local
        return
    judging = sessions.judge_settings(settings, target, device, rules, pause)
    async with open_pool(settings, judging, spreads=True) as pool:
        yield PooledJudge(judging, pool)


def refuse_changed(start: RecordedRun, task: Task) -> None:
    """Raises `UsageError` when the module is no longer the one that the run was about."""
    if task.digest != start.header.task.digest:
        raise UsageError(
            f"{task.target.path} is not what it was when {start.id} began", "start a new run with kevin optimize"
        )


def refuse_unreachable(settings: Settings) -> None:
    """Raises `UsageError` for a search that can't be made, before anything is paid for."""
    if settings.until:
        read_until(settings.until)
    if settings.search == "beam" and settings.trajectories is not None and settings.trajectories < settings.keep:
        raise UsageError(
            f"--keep {settings.keep} of --trajectories {settings.trajectories}", "keep no more than there are"
        )


def refuse_unpackable(target: Target) -> None:
    """Raises `UsageError` for a file whose package could not stand alone, before anything is paid for."""
    try:
        local_imports(Path(target.path))
    except SyntaxError as error:
        raise UsageError(
            f"{error.filename or target.path}: this Python cannot read it: {error.msg}",
            "run kevin with a Python at least as new as the module's",
        ) from error


def no_room(order: Order, policy: str, task: Task, report: TaskReport, why: str) -> Ended:
    """The end before any model is paid for."""
    if not order.as_json:
        raise NothingToOptimizeError(why, "a larger module around this one may have something to fuse")
    return Ended(
        task=task.name,
        device=task.contract.device.value,
        outcome="nothing_to_optimize",
        baseline=order.settings.baseline,
        policy=policy,
        note=why,
        report=report,
    )


async def _search(order: Order, choice: Choice, session: Session, sharing: Sharing, start: RecordedRun | None) -> Ended:
    """Open the policy, run the loop under its journal, write what was found."""
    run_settings = run_settings_of(order.settings, choice)
    progress = Progress(order.screen, session.task, run_settings, known=start, limit=session.report.roofline)
    asked_by = Around(
        hear=progress.hear,
        notice=order.screen.say,
        num_trajectories=run_settings.num_trajectories,
        roofline=session.report.roofline,
    )
    async with opened_policy(choice, session.report.device_name, sharing, asked_by, order.settings.templates) as policy:
        journal = _open_journal(order, session, policy, run_settings, start)
        sharing.log_to(journal.folder / DEVICE_LOG)
        branch = find_branch(order.settings, journal.folder, session.task, start)
        follower = Follower(journal.folder, branch, order.screen.say) if branch else None
        with progress, follower or nullcontext():
            result = await _loop(session, policy, run_settings, journal, start, progress, follower)
    refuse_silent(order.settings, result)
    run, output = journal.folder.resolve(), await _write(order.settings, session, result)
    block = ending_block(result, session.report, class_name=offered(session.task, output), run=run, output=output)
    (order.screen.say if order.as_json else order.screen.result)(block)
    if branch:
        order.screen.say(f"in git: git log --graph {branch.name}")
    if (usage := total_usage(result.turns, run_settings.price)).num_prompt_tokens:
        order.screen.say(usage_line(usage))
    if choice.shares_device and (line := sharing_line(sharing.log)):
        order.screen.say(line)
    return Ended(
        task=session.task.name,
        device=session.task.contract.device.value,
        outcome=result.ending.outcome,
        baseline=order.settings.baseline,
        policy=policy.name,
        note=result.ending.note,
        report=session.report,
        result=result,
        run=run,
        output=output,
        price=run_settings.price,
        branch=branch.name if branch else None,
    )


def refuse_silent(settings: Settings, result: RunResult) -> None:
    """Raises `EndpointError` when an endpoint answered nothing but rubbish, `MachineError` for a model in process."""
    if result.ending.outcome != "no_gain" or not (said := why_silent(result.turns)):
        return
    if settings.endpoint:
        hint = "ask it by hand, see the server's log, then start again"
        raise EndpointError(f"{place(settings.endpoint)} gave no answer that could be used: {said}", hint)
    raise MachineError(f"the model gave no answer that could be used: {said}", "kevin models says what works here")


async def _loop(
    session: Session,
    policy: Policy,
    run_settings: RunSettings,
    journal: Journal,
    start: RecordedRun | None,
    progress: Progress,
    follower: Follower | None,
) -> RunResult:
    """The search, watched on the screen and followed in git."""

    def watch(event: Event) -> None:
        progress.watch(event)
        if follower and event.finished:
            follower.poke()

    known = load_run(journal.folder) if start else None
    limit = session.report.roofline
    return await run_loop(session.task, policy, session.judge, run_settings, journal, watch, start=known, limit=limit)


def find_branch(settings: Settings, run: Path, task: Task, start: RecordedRun | None) -> Branch | None:
    """Where the run's commits go; `None` when they are not wanted or there is no repository."""
    if start:
        return read_branch(run)
    return start_branch(run, task) if settings.git else None


async def choose_model(settings: Settings, device: DeviceKind) -> Choice:
    """The policy that the settings ask for; a server of our own may be started for it later."""
    refuse_templates(settings.templates)
    return await choose(
        settings.model or None,
        settings.endpoint or None,
        device=device,
        rules=settings.rules,
        seed=settings.seed,
        wish=wish_of(settings, ""),
    )


@asynccontextmanager
async def opened_policy(
    choice: Choice,
    device_name: str,
    sharing: Sharing,
    asked_by: Around,
    templates: Path | None = None,
) -> AsyncIterator[Policy]:
    """The chosen policy, with prompts that fit what it reads and name the device, closed whatever happens.

    `asked_by`: what is around it but for the sharing. When it computes on the judge's device it is silent while
    something is measured there.
    """
    setting = Setting(rules=choice.rules, device_name=device_name, templates=templates)
    render = renderer(choice.style, prompt_budget(choice.style, choice.context_tokens), setting)
    around = replace(asked_by, sharing=sharing)
    policy = await choice.open(render, opens_think(choice.style), around)
    if choice.shares_device and isinstance(policy, Pausable):
        sharing.attach(policy)
    try:
        yield policy
    finally:
        sharing.detach()
        await policy.close()


def price_of(settings: Settings) -> Price | None:
    """Raises `UsageError` for a price that is none, and for a limit of money without a price."""
    if settings.max_cost and not settings.price:
        raise UsageError("--max-cost needs a price", "say what a million tokens cost: --price PROMPT,COMPLETION")
    return read_price(settings.price) if settings.price else None


def run_settings_of(settings: Settings, choice: Choice) -> RunSettings:
    is_beam = settings.search == "beam"
    return RunSettings(
        style=choice.style,
        search=settings.search,
        num_turns=settings.turns or (8 if is_beam else 4),
        num_trajectories=settings.trajectories or (settings.keep * settings.copies if is_beam else 2),
        keep=settings.keep,
        copies=settings.copies,
        until=read_until(settings.until) if settings.until else None,
        turn_limit=settings.max_turns,
        baseline=settings.baseline,
        max_tokens=settings.completion_tokens or answer_budget(choice.style),
        turn_timeout_s=settings.timeout or answer_timeout_s(choice.style),
        seed=settings.seed,
        time_limit_s=settings.max_time,
        token_limit=settings.max_tokens,
        cost_limit=settings.max_cost,
        price=price_of(settings),
    )


def _open_journal(
    order: Order, session: Session, policy: Policy, run_settings: RunSettings, start: RecordedRun | None
) -> Journal:
    if start:
        return continue_run(start)
    return open_run(
        session.task,
        policy=policy.name,
        settings=run_settings,
        report=session.report,
        root=order.settings.runs,
        asked=order.settings.model_dump(mode="json", exclude_none=True),
        sources_sha256=digest_of(Path(session.task.target.path)),
    )


async def _write(settings: Settings, session: Session, result: RunResult) -> Path | None:
    """The package, when the winner held; nothing that was not verified is ever written."""
    winner, final = result.winner, result.ending.final
    if result.ending.outcome != "faster" or winner is None or winner.candidate is None or final is None:
        return None
    finished = await sessions.finished_libraries(settings, session.task, winner.candidate)
    return write(session.task, winner.candidate, final, session.report, settings.out, finished)
