"""A profile on the screen: shares of time with limits, then what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kevin_cli.harness.shares import Share

MAX_ROWS = 20
HIGH_OVERHEAD = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiled:
    """What was found about a command."""

    command: str
    device: str
    forward_us: float
    """In outermost modules, all their calls but each one's first."""
    forward_share: float | None
    """Of the time between the first and the last of these calls; `None`: several processes."""
    hook_share: float
    """What watching added on the host, of the forward time."""
    rows: tuple[Share, ...]
    best: tuple[tuple[Share, str], ...]
    """With the command that makes it faster."""
    notes: tuple[str, ...] = ()


def profile_block(profiled: Profiled) -> RenderableType:
    """The table, how it was measured, and the commands."""
    return Group(_table(profiled), *map(Text, _words(profiled)), *_advice(profiled))


def _table(profiled: Profiled) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    for name in ("module", "class"):
        table.add_column(name, overflow="fold")
    for name in ("calls", "share", "own", "a call", "limit", "gain"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in [row for row in profiled.rows if row.share >= 0.001][:MAX_ROWS]:
        table.add_row(
            row.place or row.root,
            row.class_name,
            str(row.num_calls),
            f"{row.share:.0%}",
            f"{row.exclusive_us / row.total_us:.0%}" if row.total_us else "",
            _us(row.inclusive_us / max(1, row.num_calls)),
            _us(row.limit_us / max(1, row.num_calls)),
            f"{row.gain:.2f}×",
        )
    return table


def _words(profiled: Profiled) -> list[str]:
    where = "on the GPU's stream" if profiled.device == "cuda" else "on the CPU"
    words = [
        f"forward passes took {profiled.forward_us / 1e3:.1f} ms {where}; torch.compile was off, backward not seen"
    ]
    if profiled.forward_share is not None:
        words.append(
            f"they are {profiled.forward_share:.0%} of the time from the first call to the last (first included)"
        )
    words.append("limit: bytes and layers' products at measured rates; gain: of the forward passes, were it reached")
    if profiled.hook_share > HIGH_OVERHEAD:
        words.append(
            f"watching took {profiled.hook_share:.0%} of that on the host: small modules look slower than they are"
        )
    return [*words, *profiled.notes]


def _advice(profiled: Profiled) -> list[RenderableType]:
    if not profiled.best:
        return [Text("no module that TARGET can name is worth a kernel by this measure")]
    lines: list[RenderableType] = [Text("worth a kernel, the most promising first:")]
    for row, command in profiled.best:
        name = f"{row.place or row.root} ({row.class_name})"
        lines.append(Text(f"  {name}: {row.share:.0%} of the time, at most {row.gain:.2f}× for the whole"))
        lines.append(Text(f"    {command}", style="bold", no_wrap=True, overflow="ignore"))
    return lines


def _us(value_us: float) -> str:
    return f"{value_us:.1f} µs" if value_us < 1000 else f"{value_us / 1e3:.2f} ms"
