"""`kevin models`: what could propose here, one line each; nothing is loaded."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.text import Text

from kevin_cli.commands import session as sessions
from kevin_cli.commands.report import SCHEMA_VERSION, print_object
from kevin_cli.errors import ExitCode
from kevin_cli.policies.serving.own import probe_vllm
from kevin_cli.policies.survey import Found, survey
from kevin_cli.show.words import CAUTION

COLOURS = {"ready": "green", "loaded": "green", "here": "green", "absent": "dim", "paused": CAUTION}
"""Everything else is red."""


def run(flags: Mapping[str, Any], *, ask: bool) -> int:
    """0: the configured model can propose; 1: it can't."""
    order = sessions.take_order(flags)
    settings = order.settings
    found = asyncio.run(survey(settings.model, settings.endpoint, settings.cache.absolute(), ask=ask))
    vllm = probe_vllm(settings.vllm_python)
    if order.as_json:
        plain = [asdict(one) for one in found]
        print_object({"schema_version": SCHEMA_VERSION, "models": plain, "vllm": asdict(vllm)})
    else:
        for one in found:
            order.screen.result(line(one))
        has = f"vLLM {vllm.version} in {vllm.python}" if vllm.version else "vLLM: not installed (kevin-cli[vllm])"
        order.screen.result(Text(has, style="dim"))
    fails = any(one.is_configured and one.state in ("unreachable", "incomplete") for one in found)
    return int(ExitCode.NOT_BETTER if fails else ExitCode.OK)


def line(found: Found) -> Text:
    """`ready  Kevin-32B  127.0.0.1:8000/v1  vllm, 30,720 tokens, 41 a second  (configured)`."""
    facts = [found.detail] if found.detail else []
    facts += [f"{found.context_tokens:,} tokens"] if found.context_tokens else []
    facts += [f"{found.tokens_per_s:.0f} a second"] if found.tokens_per_s else []
    mark = "  (configured)" if found.is_configured else ""
    text = Text.assemble((f"{found.state:<11} ", COLOURS.get(found.state, "red")), (found.name, "bold"))
    return text.append(f"  {found.place}\n            {', '.join(facts)}{mark}", "dim")
