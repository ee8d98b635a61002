"""Messages -> token ids and token ids -> text, the same way for every engine and for the training rows.

The one place where a chat template is applied. Kevin's protocol opens the reasoning itself, so the generation
prompt ends in `<think>` (arXiv 2507.11948, and the authors' public fork).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kevin_cli.types import Message

OPENED_THINK = "<think>\n"


@dataclass(frozen=True, slots=True)
class Encoder:
    """A tokenizer of the transformers library and what is added around messages."""

    tokenizer: Any
    opens_think: bool

    def prompt(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """The ids of a rendered prompt, up to where the model's own words begin."""
        return self.plain(self.prompt_text(messages))

    def prompt_text(self, messages: Sequence[Message]) -> str:
        if not getattr(self.tokenizer, "chat_template", None):
            return "\n\n".join(message.content for message in messages) + "\n\n"
        plain = [{"role": message.role, "content": message.content} for message in messages]
        text: str = self.tokenizer.apply_chat_template(plain, tokenize=False, add_generation_prompt=True)
        return text + OPENED_THINK if self.opens_think and not text.rstrip().endswith("<think>") else text

    def answer(self, text: str, *, is_complete: bool) -> tuple[int, ...]:
        """The ids of an answer, with the end token when it is complete."""
        ids = self.plain(text)
        return (*ids, self.end_id) if is_complete else ids

    def plain(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def count(self, text: str) -> int:
        return len(self.plain(text))

    def text(self, ids: Sequence[int]) -> str:
        decoded: str = self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return decoded

    @property
    def end_id(self) -> int:
        return int(self.tokenizer.eos_token_id)

    @property
    def pad_id(self) -> int:
        pad = self.tokenizer.pad_token_id
        return self.end_id if pad is None else int(pad)
