"""The GPUs as the driver shows them: memory, driver, and who may use which. No CUDA context is made."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from kevin_cli.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU."""

    index: int
    name: str
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """All GPUs of this machine, in the driver's order."""

    gpus: tuple[Gpu, ...] = ()
    driver: str = ""
    cuda: tuple[int, int] = (0, 0)
    """The newest CUDA that the driver runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Which GPUs serve the model and which run kernels, by index."""

    model: tuple[int, ...]
    kernels: tuple[int, ...]

    @property
    def shares(self) -> bool:
        """Whether kernels are timed on a GPU that the model uses."""
        return bool(set(self.model) & set(self.kernels))


def find_gpus() -> Gpus:
    """Empty without a driver or a GPU."""
    import pynvml

    with contextlib.suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        try:
            version = int(pynvml.nvmlSystemGetCudaDriverVersion())
            return Gpus(
                gpus=tuple(_gpu(index) for index in range(pynvml.nvmlDeviceGetCount())),
                driver=_text(pynvml.nvmlSystemGetDriverVersion()),
                cuda=(version // 1000, version % 1000 // 10),
            )
        finally:
            pynvml.nvmlShutdown()
    return Gpus()


def _gpu(index: int) -> Gpu:
    import pynvml

    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    name = _text(pynvml.nvmlDeviceGetName(handle))
    return Gpu(index=index, name=name, total_bytes=int(memory.total), free_bytes=int(memory.free))


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def read_indices(text: str, option: str, count: int) -> tuple[int, ...]:
    """`0,2` -> indices of GPUs that are there. Raises `UsageError`."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdigit() for part in parts):
        raise UsageError(f"{option} {text!r} is not a list of GPUs", "give their numbers as nvidia-smi has them: 0,1")
    indices = tuple(dict.fromkeys(int(part) for part in parts))
    for index in indices:
        if index >= count:
            raise UsageError(f"{option} names GPU {index}; this machine has {count}", "nvidia-smi lists them")
    return indices


def split_gpus(num_gpus: int, model: Sequence[int] = (), kernels: Sequence[int] = ()) -> Split:
    """As asked for; what was not said: kernels on the first GPU that the model does not have, the model on the rest.

    With one GPU both share it.
    """
    everything = range(num_gpus)
    if not kernels:
        spare = [index for index in everything if index not in model]
        kernels = spare[:1] if spare else list(everything)[:1]
    if not model:
        model = [index for index in everything if index not in kernels] or list(everything)[:1]
    return Split(model=tuple(model), kernels=tuple(kernels))
