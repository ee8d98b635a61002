"""Write a tiny random model as a model directory: two layers, its own tokenizer, QwQ's form of chat template.

    python tests/small_models/tiny_model.py DIRECTORY

A second or two, no network, under 2 MB. What it writes is noise from a real tokenizer through a real model: it
tests plumbing. Heads have 32 dimensions because vLLM's CPU attention takes no fewer.
"""

from __future__ import annotations

import sys
from pathlib import Path

CONTEXT_TOKENS = 8192
VOCABULARY = 1024
END, START, PAD = "<|im_end|>", "<|im_start|>", "<|endoftext|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% set words = message.content.split('</think>')[-1].lstrip('\\n') if message.role == 'assistant' "
    "else message.content %}"
    "<|im_start|>{{ message.role }}\n{{ words }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
)
TEXTS = Path(__file__).parents[2] / "kevin_cli" / "refine" / "templates"


def make_tokenizer(directory: Path) -> None:
    """Byte-level BPE, learned from the prompt templates."""
    import tokenizers
    import transformers

    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[PAD, START, END],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train([str(path) for path in sorted(TEXTS.iterdir())], trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token=END, pad_token=PAD, clean_up_tokenization_spaces=False
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(directory)


def make(directory: Path) -> Path:
    """The model and its tokenizer."""
    import torch
    import transformers

    directory.mkdir(parents=True, exist_ok=True)
    make_tokenizer(directory)
    config = transformers.Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT_TOKENS,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=2,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    model = transformers.Qwen2ForCausalLM(config).float()
    model.generation_config.do_sample = True  # or `transformers serve` is greedy, whatever is asked for
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = 2, 0
    model.save_pretrained(directory)
    return directory


if __name__ == "__main__":
    make(Path(sys.argv[1]))
