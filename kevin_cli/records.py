"""Values to JSON and back: the one codec of journals, `--json` output and descriptions of tasks.

Writing needs the standard library only, so that the programs in the user's environment can use it;
reading validates with pydantic, which is imported when first used. Infinities are written as Python's
`Infinity` (a graph may hold them), which `json` and pydantic both read.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Hashable
from functools import lru_cache
from typing import Any, TypeVar, cast

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """A frozen record as dicts and lists."""
    return dataclasses.asdict(value)


def dumps(value: Any) -> str:
    """A frozen record as one line of JSON."""
    return json.dumps(to_plain(value), ensure_ascii=False, separators=(",", ":"))


def loads(kind: type[T], text: str | bytes) -> T:
    """Read one record back. Raises `pydantic.ValidationError` when the text is not such a record."""
    result: T = _adapter(cast(Hashable, kind)).validate_json(text)
    return result


def from_plain(kind: type[T], value: Any) -> T:
    """The same from dicts and lists, e.g. one field of a larger JSON object."""
    return loads(kind, json.dumps(value))


@lru_cache(maxsize=32)
def _adapter(kind: Hashable) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(cast(Any, kind))
