"""The model that is trained, its tokenizer, and its weights as an engine wants them.

Heavy packages are imported inside functions. `random` is a model of two random layers with a tokenizer made in
code, for runs whose subject is everything but the model.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kevin_cli.errors import UsageError
from trainer.config import Model

RANDOM = "random"
RANDOM_SEED = 7
VOCABULARY = 1024
CHAT_TEMPLATE = (
    "{% for m in messages %}<|start|>{{ m['role'] }}\n{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


def load_tokenizer(model: Model) -> Any:
    """Raises `UsageError` when there is none."""
    if model.path == RANDOM:
        return _random_tokenizer()
    import transformers

    try:
        return transformers.AutoTokenizer.from_pretrained(model.path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{model.path} has no tokenizer: {_line(error)}", "see model.path") from error


def load_model(model: Model) -> Any:
    """The weights, on the CPU, in the configured type. Raises `UsageError` when they can't be read."""
    import torch
    import transformers

    dtype = getattr(torch, model.dtype)
    if model.path == RANDOM:
        return _random_model(dtype)
    try:
        return transformers.AutoModelForCausalLM.from_pretrained(model.path, dtype=dtype, attn_implementation="sdpa")
    except (OSError, ValueError) as error:
        raise UsageError(f"{model.path} can not be loaded: {_line(error)}", "see model.path") from error


def refuse_other_end(model: Any, end_id: int) -> None:
    """Raises `UsageError` when the tokenizer ends an answer with another token than the model does: it would be
    trained never to stop where it does."""
    known = model.generation_config.eos_token_id if model.generation_config else None
    known = model.config.eos_token_id if known is None else known
    ends = known if isinstance(known, list) else [known]
    if known is not None and end_id not in ends:
        raise UsageError(
            f"the tokenizer's end token is {end_id}, and the model's {', '.join(map(str, ends))}",
            "set eos_token in tokenizer_config.json to the model's own",
        )


def empty_copy(model: Any, device: Any) -> Any:
    """A model of the same form, without its adapters, for an engine to fill."""
    import transformers

    plain = model.get_base_model() if hasattr(model, "get_base_model") else model
    copy = transformers.AutoModelForCausalLM.from_config(plain.config, dtype=plain.dtype, attn_implementation="sdpa")
    copy.generation_config = plain.generation_config
    return copy.to(device)


def with_adapters(model: Any, spec: Model) -> Any:
    """The model with adapters to train, new ones or those of a warm start; itself when every weight is trained.

    LoRA on every linear layer (arXiv 2106.09685), kept in float32 whatever the model's type. Raises `UsageError`
    when the adapters to go on from can't be read.
    """
    if not spec.lora_rank:
        return model
    import peft

    if spec.adapters:
        try:
            return peft.PeftModel.from_pretrained(model, spec.adapters, is_trainable=True)
        except (OSError, ValueError) as error:
            raise UsageError(f"{spec.adapters} has no adapters: {_line(error)}", "see model.adapters") from error
    config = peft.LoraConfig(
        r=spec.lora_rank, lora_alpha=spec.lora_alpha, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    return peft.get_peft_model(model, config)


def merged(model: Any, spec: Model) -> Any:
    """The model with the adapters of `spec.adapters` merged into its weights; itself without any."""
    return with_adapters(model, spec).merge_and_unload() if spec.adapters else model


def whole_weights(model: Any) -> Iterator[tuple[str, Any]]:
    """Name and whole tensor of every weight, with adapters merged in, one at a time.

    Gathers what ZeRO-3 or FSDP2 has spread; every rank has to iterate in step.
    """
    modules = dict(model.named_modules())
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            continue
        owner = modules[name.rpartition(".")[0].removesuffix(".base_layer")]
        adapters = _adapters(owner) if name.endswith("base_layer.weight") else []
        with _gathered([parameter, *(weight for pair in adapters for weight in pair[:2])]):
            tensor = _whole(parameter)
            for down, up, scale in adapters:
                tensor = tensor.float() + scale * (_whole(up).float() @ _whole(down).float())
            yield name.removeprefix("base_model.model.").replace(".base_layer", ""), tensor


def _adapters(layer: Any) -> list[tuple[Any, Any, float]]:
    return [(layer.lora_A[key].weight, layer.lora_B[key].weight, layer.scaling[key]) for key in layer.active_adapters]


def _whole(parameter: Any) -> Any:
    return parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter.detach()


def _gathered(parameters: list[Any]) -> contextlib.AbstractContextManager[Any]:
    if not any(hasattr(parameter, "ds_id") for parameter in parameters):
        return contextlib.nullcontext()
    import deepspeed

    return deepspeed.zero.GatheredParameters(parameters)  # type: ignore[no-any-return]


def _random_model(dtype: Any) -> Any:
    import torch
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=16384,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )
    with torch.random.fork_rng():
        torch.manual_seed(RANDOM_SEED)
        return transformers.AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")


def _random_tokenizer() -> Any:
    """Bytes and the commonest pairs of this project's own templates."""
    import tokenizers
    import transformers
    from tokenizers import decoders, models, pre_tokenizers, trainers

    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = ["<|start|>", "<|end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    texts = [path.read_text() for path in sorted((Path(__file__).parents[1] / "kevin_cli/refine").glob("templates/*"))]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(texts, trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<|start|>", eos_token="<|end|>", pad_token="<|end|>"
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
