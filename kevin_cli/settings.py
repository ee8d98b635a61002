"""What the user chose: flags > `KEVIN_*` > `[tool.kevin]` in pyproject.toml > defaults.

One flat record with the same names everywhere: `--max-time`, `KEVIN_MAX_TIME`, `max-time = 600`. A value
that does not fit is an error that names the place it came from; an unknown key in `[tool.kevin]` is an
error with a suggestion, and so is a `KEVIN_*` variable that looks like a misspelt one. Other `KEVIN_*`
variables are left alone: packages written by kevin read `KEVIN_GUARD`.

The nearest pyproject.toml that has a `[tool.kevin]` table, upwards from the working directory, is read.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from kevin_cli.errors import UsageError, fault_text
from kevin_cli.types import Isolation, Nans, Rules

PREFIX = "KEVIN_"


def _cache_home() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kevin"


class Settings(BaseSettings):
    """Everything `optimize` and `check` can be told, with the defaults."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, extra="forbid", frozen=True)

    device: Literal["auto", "cuda", "cpu"] = "auto"
    python: str = ""
    """Interpreter in which the user's module imports; empty: the active environment's."""
    search: Literal["serial", "parallel", "beam"] = "parallel"
    turns: int | None = Field(None, ge=1, le=256)
    """Of each trajectory; `None`: 4, for a beam 8."""
    trajectories: int | None = Field(None, ge=1, le=64)
    """`None`: 2, for a beam as many as it keeps and copies."""
    keep: int = Field(4, ge=1, le=64)
    """Beam: how many trajectories are kept after every four turns."""
    copies: int = Field(4, ge=1, le=64)
    """Beam: how many times each of them goes on."""
    until: str = ""
    """`1.5x` or `90%`: the search ends when a candidate reaches it."""
    max_turns: int | None = Field(None, gt=0)
    """Turns over all trajectories."""
    model: str = ""
    """A local model directory, or the name of a model behind `endpoint`; empty: see `policies.choose`."""
    endpoint: str = ""
    """Base URL of an OpenAI-compatible server."""
    templates: Path | None = None
    """A folder with prompt templates of the user's own."""
    model_gpus: str = ""
    """GPUs for the model, as nvidia-smi numbers them: `1,2`; empty: those that kernels do not need."""
    kernel_gpus: str = ""
    """The GPU on which kernels are timed; empty: the first that the model does not use."""
    pool: Literal["", "local", "ray"] = ""
    """Judge on every GPU of this machine, or of a Ray cluster; empty: on one, in this process."""
    model_sleeps: bool = False
    """vLLM gives its memory back while kernels are timed, instead of leaving some free; no flag of its own."""
    vllm_python: str = ""
    """Interpreter in which vLLM is installed; empty: this one, or that of the `vllm` on PATH."""
    max_model_len: int | None = Field(None, gt=0)
    """Prompt and answer together, of a server that kevin starts."""
    quantization: str = ""
    """How plain weights are quantised on loading by a server that kevin starts: `fp8`, `bitsandbytes`."""
    rules: Rules | None = None
    """`None`: `kernels` with a model trained on Kevin's protocol, `library` otherwise."""
    nans: Nans = Nans.PROPAGATE
    """Whether NaN in inputs must come out as the module's."""
    sanitize: bool = False
    """Whether compute-sanitizer looks at the kernel that is judged for good (CUDA)."""
    baseline: Literal["fastest", "eager"] = "fastest"
    out: Path = Path(".")
    """The folder in which `<name>_kevin/` is written."""
    seed: int = Field(0, ge=0)
    """Of the proposals. The judge's seeds are secret and never come from here."""
    timeout: float | None = Field(None, gt=0)
    """Seconds that one proposal, one build or one run of a candidate may take; `None`: a limit for each."""
    max_time: float | None = Field(None, gt=0)
    """Seconds for the whole search."""
    max_tokens: int | None = Field(None, gt=0)
    """Completion tokens for the whole search."""
    max_cost: float | None = Field(None, gt=0)
    """Money for the whole search; needs `price`."""
    price: str = ""
    """What a million tokens cost, `PROMPT,COMPLETION`, in any currency; empty: money is not counted."""
    completion_tokens: int | None = Field(None, gt=0)
    """Limit of one completion; `None`: what goes with the model (Kevin: 22528). No flag of its own."""
    isolation: Isolation = Isolation.PROCESS
    """The weakest containment that is acceptable."""
    git: bool = True
    """Whether a run's turns become commits on a branch `kevin/<run>`, where the module is in a repository."""
    runs: Path = Path(".kevin/runs")
    cache: Path = Field(default_factory=_cache_home)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        table = project_table(Path.cwd())[1]
        return init_settings, env_settings, InitSettingsSource(settings_cls, init_kwargs=table)


def read(flags: Mapping[str, Any]) -> Settings:
    """Put the layers together. `flags` holds `None` for what was not given.

    Raises `UsageError` for an unknown key or a value that does not fit.
    """
    path, table = project_table(Path.cwd())
    _refuse_unknown(table, f"[tool.kevin] in {path}")
    _refuse_misspelt(os.environ)
    given = {name: value for name, value in flags.items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as error:
        raise _readable(error, given, table, path) from error


def project_table(start: Path) -> tuple[Path | None, dict[str, Any]]:
    """The nearest `[tool.kevin]` table upwards, keys with underscores, and the file it stands in."""
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        table = _kevin_table(path) if path.is_file() else None
        if table is not None:
            return path, {key.replace("-", "_"): value for key, value in table.items()}
    return None, {}


def _kevin_table(path: Path) -> dict[str, Any] | None:
    """`[tool.kevin]` of one file; `None` when it has none. Raises `UsageError` for what is no table."""
    try:
        found: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}", "mend that file, or run kevin elsewhere") from error
    except OSError as error:
        raise UsageError(
            f"can't read {path}: {error.strerror}", "mend its permissions, or run kevin elsewhere"
        ) from error
    for key in ("tool", "kevin"):
        found = found.get(key)
        if found is None:
            return None
        if not isinstance(found, dict):
            name = "tool" if key == "tool" else "tool.kevin"
            raise UsageError(
                f"{name} in {path} is no table but {found!r}", "write [tool.kevin] and a line for each setting"
            )
    return dict(found)


def _refuse_unknown(table: Iterable[str], place: str) -> None:
    for key in table:
        if key not in Settings.model_fields:
            raise UsageError(f"unknown key {key!r} in {place}", _suggestion(key))


def _refuse_misspelt(environment: Iterable[str]) -> None:
    for variable in environment:
        key = variable.removeprefix(PREFIX).lower()
        if variable.startswith(PREFIX) and key not in Settings.model_fields and _nearest(key):
            raise UsageError(f"unknown variable {variable}", f"did you mean {PREFIX}{_nearest(key).upper()}?")


def _nearest(key: str) -> str:
    return next(iter(difflib.get_close_matches(key, Settings.model_fields, n=1, cutoff=0.75)), "")


def _suggestion(key: str) -> str:
    nearest = _nearest(key)
    return f"did you mean {nearest!r}?" if nearest else f"known keys: {', '.join(Settings.model_fields)}"


def _readable(
    error: ValidationError, given: Mapping[str, Any], table: Mapping[str, Any], path: Path | None
) -> UsageError:
    """The first thing that does not fit, with the place where the value stands."""
    first = error.errors(include_url=False)[0]
    key = str(first["loc"][0])
    variable = PREFIX + key.upper()
    if key in given:
        place = "--" + key.replace("_", "-")
    elif os.environ.get(variable):
        place = variable
    else:
        place = f"{key} in [tool.kevin] of {path}" if key in table else key
    return UsageError(f"{place}: {fault_text(first)} (got {first['input']!r})", "see 'kevin optimize --help'")
