"""`kevin serve`."""

from __future__ import annotations

from typing import Annotated

import typer

from kevin_cli.commands.options import Flags, Gpus, Talking, takes


@takes(Gpus, Talking)
def command(
    model: Annotated[str, typer.Argument(help="kevin, qwq, a name on the Hugging Face Hub, or a directory.")] = "kevin",
    extra: Annotated[list[str] | None, typer.Argument(help="After --: further arguments for vLLM.")] = None,
    port: Annotated[int, typer.Option(help="On 127.0.0.1; another is taken when it is in use.")] = 8000,
    max_model_len: Annotated[int | None, typer.Option(help="Tokens of prompt and answer; default 30720.")] = None,
    dtype: Annotated[str, typer.Option(help="Type of the computation; default bfloat16, float32 on a CPU.")] = "",
    quantization: Annotated[str | None, typer.Option(help="Quantise plain weights: fp8 or bitsandbytes.")] = None,
    tensor_parallel: Annotated[int, typer.Option(help="GPUs over which the model is divided; default: all.")] = 0,
    lora: Annotated[str, typer.Option(help="An adapter's directory; it names its base model.")] = "",
    vllm_python: Annotated[str | None, typer.Option(help="Interpreter in which vLLM is installed.")] = None,
    print_only: Annotated[bool, typer.Option("--print", help="Print vLLM's command and start nothing.")] = False,
    *,
    flags: Flags,
) -> int:
    """Serve a model with vLLM on this machine, for kevin optimize; ends with Ctrl-C."""
    from kevin_cli.commands import serve

    given = {"max_model_len": max_model_len, "quantization": quantization, "vllm_python": vllm_python}
    ways = {"port": port, "dtype": dtype, "tensor_parallel": tensor_parallel, "lora": lora, "extra": tuple(extra or ())}
    return serve.run(model, ways, {**flags, **given}, print_only=print_only)
