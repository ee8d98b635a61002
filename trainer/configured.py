"""Presets, files and `--set section.key=value` -> a `Config`.

A preset is a data file in `presets/`. A file of the user's own may name one in `preset = "…"` and state only what
differs. Values are TOML's, strictly typed; a key that does not exist is an error with the nearest known name.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kevin_cli.errors import UsageError
from trainer.config import Config, Section

PRESETS = Path(__file__).parent / "presets"


def preset_names() -> list[str]:
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def load(preset_or_file: str, overrides: Sequence[str] = ()) -> Config:
    """Read a preset by name or a TOML file, with `section.key=value` overrides in order.

    Raises `UsageError` for an unknown preset, file, section or key (with the nearest name), or a wrong type.
    """
    plain = _read(preset_or_file)
    for text in overrides:
        _set(plain, text)
    _refuse_unknown(plain, Config, "")
    try:
        return Config.model_validate(_tuples(plain, Config), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(f"{place}: {first['msg'].lower()}", f"see presets in {PRESETS.name}/ for its form") from error


def _read(preset_or_file: str) -> dict[str, Any]:
    path = PRESETS / f"{preset_or_file}.toml"
    if not path.is_file():
        path = Path(preset_or_file)
    if not path.is_file():
        close = difflib.get_close_matches(preset_or_file, preset_names(), n=1)
        hint = f"did you mean {close[0]}?" if close else f"presets: {', '.join(preset_names())}; or give a TOML file"
        raise UsageError(f"no preset and no file {preset_or_file!r}", hint)
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}", "see the presets for its form") from error
    base = plain.pop("preset", None)
    return _merged(_read(str(base)), plain) if base else plain


def _merged(base: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        known = result.get(key)
        result[key] = _merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return result


def _set(plain: dict[str, Any], text: str) -> None:
    """`learn.kl=0.01`: the value is TOML, or a bare word for text."""
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--set {text}: there is no '='", "write --set section.key=value")
    *sections, key = name.strip().split(".")
    place = plain
    for section in sections:
        place = place.setdefault(section, {})
        if not isinstance(place, dict):
            raise UsageError(f"--set {text}: {section} is a value, not a section", "write --set section.key=value")
    place[key] = _value(value.strip())


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _refuse_unknown(plain: Mapping[str, Any], kind: type[Section], where: str) -> None:
    for key, value in plain.items():
        name = f"{where}{key}"
        if key not in kind.model_fields:
            close = difflib.get_close_matches(key, kind.model_fields, n=1, cutoff=0.5)
            known = f"did you mean {where}{close[0]}?" if close else f"known: {', '.join(kind.model_fields)}"
            raise UsageError(f"there is no setting {name}", known)
        section = kind.model_fields[key].annotation
        if isinstance(section, type) and issubclass(section, Section):
            if not isinstance(value, dict):
                raise UsageError(f"{name} is a section, not a value", f"write [{name}] and its keys below")
            _refuse_unknown(value, section, f"{name}.")


def _tuples(plain: Mapping[str, Any], kind: type[Section]) -> dict[str, Any]:
    """TOML's arrays as tuples and its whole numbers as floats where floats belong: strict types take no others."""
    result: dict[str, Any] = {}
    for key, value in plain.items():
        wanted = kind.model_fields[key].annotation
        if isinstance(value, dict) and isinstance(wanted, type) and issubclass(wanted, Section):
            value = _tuples(value, wanted)
        elif isinstance(value, list):
            value = tuple(value)
        elif wanted is float and type(value) is int:
            value = float(value)
        result[key] = value
    return result
