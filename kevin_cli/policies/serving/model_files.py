"""Where a model's files lie on this machine, whether they are whole, and how large it is.

A model is a directory or a name on the Hugging Face Hub; of the latter only what the local cache holds is looked
at, nothing is fetched. Sizes are read from the headers of the safetensors files, so they are those of the tensors
and not a guess from the name.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kevin_cli.policies.serving.memory_plan import ModelShape

ALIASES = {
    "kevin": "cognition-ai/Kevin-32B",
    "kevin-32b": "cognition-ai/Kevin-32B",
    "qwq": "Qwen/QwQ-32B",
    "qwq-32b": "Qwen/QwQ-32B",
}
QWEN_32B = ModelShape(
    num_params=32_763_876_352,
    num_layers=64,
    num_heads=40,
    num_kv_heads=8,
    head_dim=128,
    hidden_size=5120,
    intermediate_size=27648,
    vocab_size=152064,
    fixed_bytes=0,
)
"""QwQ-32B and what was trained from it."""
PUBLISHED: Mapping[str, tuple[ModelShape, int]] = {
    "cognition-ai/Kevin-32B": (QWEN_32B, 4),
    "Qwen/QwQ-32B": (QWEN_32B, 2),
}
"""Shape, and bytes a parameter of the published files: Kevin's card says float32."""
FLOAT_DTYPES = ("F64", "F32", "F16", "BF16")
MAX_HEADER_BYTES = 100 << 20
SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "U32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """A model as this machine has it."""

    name: str
    """A name on the Hub or an absolute path: what vLLM is given."""
    folder: Path | None = None
    """`None` when nothing of it is here."""
    missing: tuple[str, ...] = ()
    """Files that should be in the folder and are not."""
    shape: ModelShape | None = None
    """`None` when neither the files nor the publication tell."""
    download_bytes: int = 0
    """How much there is to fetch, where that is known."""
    adapter: Path | None = None
    """A LoRA adapter that goes on top of the model."""
    adapter_rank: int = 0
    quantization: str = ""
    """As config.json says it: `awq`, `gptq`, `fp8`; empty for plain weights."""
    context_tokens: int | None = None

    @property
    def is_whole(self) -> bool:
        return self.folder is not None and not self.missing


@dataclass(slots=True)
class _Counted:
    """Parameters of floating types, and bytes of all others (packed weights of a quantised model)."""

    num_params: int = 0
    fixed_bytes: int = 0
    missing: list[str] = field(default_factory=list)


def full_name(model: str) -> str:
    """`kevin` -> `cognition-ai/Kevin-32B`; a directory as an absolute path; else the name as it is."""
    if model.lower() in ALIASES:
        return ALIASES[model.lower()]
    path = Path(model).expanduser()
    return str(path.resolve()) if path.exists() else model


def find(model: str) -> ModelFiles:
    """The model's files, and its base's when it is a LoRA adapter."""
    name = full_name(model)
    folder = Path(name) if Path(name).is_dir() else _cached(name)
    if folder is None:
        shape, width = PUBLISHED.get(name, (None, 0))
        return ModelFiles(name=name, shape=shape, download_bytes=shape.num_params * width if shape else 0)
    adapter = _read(folder / "adapter_config.json")
    if adapter.get("base_model_name_or_path"):
        return _with_adapter(find(str(adapter["base_model_name_or_path"])), folder, adapter)
    return _described(name, folder)


def _with_adapter(base: ModelFiles, folder: Path, adapter: Mapping[str, Any]) -> ModelFiles:
    from dataclasses import replace

    rank = adapter.get("r")
    return replace(base, adapter=folder, adapter_rank=rank if isinstance(rank, int) else 0)


def _described(name: str, folder: Path) -> ModelFiles:
    config = _read(folder / "config.json")
    counted = _count(folder)
    missing = [part for part in ("config.json", "tokenizer_config.json") if not (folder / part).exists()]
    quantization = config.get("quantization_config")
    context = config.get("max_position_embeddings")
    return ModelFiles(
        name=name,
        folder=folder,
        missing=(*missing, *counted.missing),
        shape=_shape(config, counted),
        quantization=str(quantization.get("quant_method", "")) if isinstance(quantization, dict) else "",
        context_tokens=context if isinstance(context, int) else None,
    )


def _shape(config: Mapping[str, Any], counted: _Counted) -> ModelShape | None:
    try:
        heads = int(config["num_attention_heads"])
        hidden = int(config["hidden_size"])
        return ModelShape(
            num_params=counted.num_params,
            num_layers=int(config["num_hidden_layers"]),
            num_heads=heads,
            num_kv_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=int(config.get("head_dim") or hidden // heads),
            hidden_size=hidden,
            intermediate_size=int(config.get("intermediate_size") or 4 * hidden),
            vocab_size=int(config["vocab_size"]),
            fixed_bytes=counted.fixed_bytes,
        )
    except (KeyError, TypeError, ValueError):
        return None


def _count(folder: Path) -> _Counted:
    counted = _Counted()
    index = _read(folder / "model.safetensors.index.json").get("weight_map")
    listed = sorted(set(index.values())) if isinstance(index, dict) else []
    names = listed or [path.name for path in sorted(folder.glob("*.safetensors"))]
    if not names:
        counted.missing.append("*.safetensors")
    for name in names:
        path = folder / str(name)
        if not path.exists() or not _add(path, counted):
            counted.missing.append(str(name))
    return counted


def _add(path: Path, counted: _Counted) -> bool:
    """Whether the file is whole: its header can be read and its tensors all lie inside it."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(min(length, MAX_HEADER_BYTES)))
    except (OSError, ValueError, struct.error):
        return False
    header.pop("__metadata__", None)
    for tensor in header.values():
        size = 1
        for extent in tensor["shape"]:
            size *= extent
        if tensor["dtype"] in FLOAT_DTYPES:
            counted.num_params += size
        else:
            counted.fixed_bytes += size * SIZES.get(tensor["dtype"], 1)
    end = max((tensor["data_offsets"][1] for tensor in header.values()), default=0)
    return bool(path.stat().st_size >= 8 + length + end)


def _cached(name: str) -> Path | None:
    """The newest snapshot in the Hub's local cache, whole or not."""
    import huggingface_hub
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(huggingface_hub.snapshot_download(name, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        return None


def _read(path: Path) -> dict[str, Any]:
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return plain if isinstance(plain, dict) else {}
