"""A trajectory -> the messages that ask for the next turn.

Style `kevin` is the published protocol (arXiv 2507.11948 §4 and appendix D, and the authors' public
fork): one user message with the architecture, the instruction and a one-shot example; from the second
turn on the same text without the example, then the earlier turns as real chat turns, the answer without
its reasoning and the feedback; whole oldest turns are dropped until the prompt fits. The other styles say
the same to any instruct model, with the device, the contract and what the judge checks.

The wording is in `templates/*.j2`; a folder of the user's own may override any of them by name.

Not promised: that the count is exact. Roles and separators of a chat template are covered by a fixed
margin, as in the original, and a policy without a tokenizer counts characters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kevin_cli.errors import UsageError
from kevin_cli.refine.describe import task_words
from kevin_cli.refine.extract import answer_text
from kevin_cli.refine.untrusted import clean
from kevin_cli.types import Message, Outcome, Rules, Style, Trajectory, Turn

CountTokens = Callable[[str], int]
Render = Callable[[Trajectory, CountTokens | None], tuple[Message, ...]]

MARGIN_TOKENS = 32
KEVIN_BUDGET_TOKENS = 8192
"""Longest prompt in the published run."""
GENERAL_BUDGET_TOKENS = 16384
KEVIN_ANSWER_TOKENS = (16384, 22528)
"""Longest completion in the published run: before and after its batch 30. The released model is of after."""
GENERAL_ANSWER_TOKENS = 16384
ANSWER_TIMEOUT_S = 600.0
KEVIN_ANSWER_TIMEOUT_S = 3600.0
"""A completion of 22528 tokens at 7 tokens a second, which is slow even among many trajectories."""
CHARS_PER_TOKEN = 4
NO_ANSWER = "(no complete answer)"
_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a prompt says besides the trajectory."""

    rules: Rules = Rules.LIBRARY
    device_name: str = ""
    """As the judge's report has it, e.g. `NVIDIA H200`. Kevin's prompt names the H100, whatever runs."""
    templates: Path | None = None
    """A folder with templates of the user's own."""


def refuse_templates(folder: Path | None) -> None:
    """Raises `UsageError` for a folder of the user's own that is not there or holds no template that is known."""
    if folder is None:
        return
    known = sorted(path.name for path in _TEMPLATES.iterdir())
    if not folder.is_dir():
        raise UsageError(f"no folder of templates {folder}", f"copy from {_TEMPLATES} what you want to change")
    strange = sorted(path.name for path in folder.iterdir() if path.suffix == ".j2" and path.name not in known)
    if strange or not any((folder / name).is_file() for name in known):
        what = f"{folder}/{strange[0]} is no prompt template" if strange else f"{folder} holds no prompt template"
        raise UsageError(what, f"their names: {', '.join(known)}")


def opens_think(style: Style) -> bool:
    """Whether the generation prompt ends in an opened `<think>`, for policies to see to."""
    return style is Style.KEVIN


def prompt_budget(style: Style, context_tokens: int | None) -> int:
    """How long a prompt may be: Kevin's 8192, others 16384; never more than half of what the model reads."""
    budget = KEVIN_BUDGET_TOKENS if style is Style.KEVIN else GENERAL_BUDGET_TOKENS
    return budget if context_tokens is None else min(budget, context_tokens // 2)


def answer_budget(style: Style) -> int:
    """How long a completion may be, its reasoning included."""
    return KEVIN_ANSWER_TOKENS[-1] if style is Style.KEVIN else GENERAL_ANSWER_TOKENS


def answer_timeout_s(style: Style) -> float:
    """How long a completion may take."""
    return KEVIN_ANSWER_TIMEOUT_S if style is Style.KEVIN else ANSWER_TIMEOUT_S


def count_characters(text: str) -> int:
    """Tokens, guessed from the length: for policies that have no tokenizer."""
    return -(-len(text) // CHARS_PER_TOKEN)


def renderer(style: Style, budget_tokens: int = KEVIN_BUDGET_TOKENS, setting: Setting | None = None) -> Render:
    """`render` with everything but the trajectory fixed, for a policy to call."""

    def bound(trajectory: Trajectory, count_tokens: CountTokens | None) -> tuple[Message, ...]:
        return render(trajectory, style, count_tokens or count_characters, budget_tokens, setting)

    return bound


def render(
    trajectory: Trajectory,
    style: Style,
    count_tokens: CountTokens,
    budget_tokens: int,
    setting: Setting | None = None,
) -> tuple[Message, ...]:
    """The messages for the next turn. Turns that say nothing about a candidate are left out.

    A prompt whose first message alone exceeds the budget is returned as it is: only the server knows
    whether it is really too long.
    """
    setting = setting or Setting()
    first = _task_message(trajectory, style, setting, first=True)
    turns = [turn for turn in trajectory.turns if _is_worth_showing(turn)]
    if not turns:
        return (first,)
    base = _task_message(trajectory, style, setting, first=False)
    kept = _newest_that_fit(turns, style, count_tokens, budget_tokens - count_tokens(base.content))
    history = [message for turn in kept for message in _chat(turn, style)]
    return (base, *history) if history else (first,)


def _is_worth_showing(turn: Turn) -> bool:
    return turn.completion.finish_reason != "error" and turn.verdict.outcome is not Outcome.INFRA


def _newest_that_fit(turns: Sequence[Turn], style: Style, count: CountTokens, room: int) -> Sequence[Turn]:
    sizes = [sum(count(message.content) for message in _chat(turn, style)) for turn in turns]
    start = 0
    while start < len(turns) and sum(sizes[start:]) >= room - MARGIN_TOKENS:
        start += 1
    return turns[start:]


def _chat(turn: Turn, style: Style) -> tuple[Message, Message]:
    return Message("assistant", _said(turn, style)), Message("user", turn.feedback)


def _said(turn: Turn, style: Style) -> str:
    """The answer without its reasoning; for Kevin an answer without an end is empty (the end token only)."""
    complete = turn.completion.finish_reason == "stop"
    answer = answer_text(turn.completion, style) if complete else None
    if style is Style.KEVIN:
        return answer or ""
    return clean(answer or "", cap_chars=1_000_000).strip() or NO_ANSWER


def _task_message(trajectory: Trajectory, style: Style, setting: Setting, *, first: bool) -> Message:
    words = task_words(trajectory.task)
    values = {"rules": setting.rules.value, "device_name": setting.device_name, "first": first, **words}
    return Message("user", _fill(f"{style.value}.j2", setting.templates, values))


def _fill(name: str, folder: Path | None, values: dict[str, Any]) -> str:
    import jinja2

    folders = [str(_TEMPLATES)] if folder is None else [str(folder), str(_TEMPLATES)]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # a prompt, not a page
    )
    try:
        return environment.get_template(name).render(values)
    except jinja2.TemplateError as error:
        where = f" line {error.lineno}" if isinstance(error, jinja2.TemplateSyntaxError) else ""
        raise UsageError(
            f"prompt template {name}{where}: {error}", "see kevin_cli/refine/templates for the names"
        ) from error
