"""The modules in `users/`, written the way users write, and what a user types to have each made faster."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

PATIENCE = float(os.environ.get("TEST_PATIENCE", "1"))
"""By how much every limit of time is stretched, on a machine that others use; pytest's own is `--timeout`."""
USERS = Path(__file__).parent / "users"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """One module: what is named on the command line, and how its owner makes it."""

    target: str
    """TARGET, relative to `users/`."""
    make: str
    """Python that makes the original from the names in its file; of the whole, when a submodule is meant."""
    options: tuple[str, ...] = ()
    inputs: str = "get_inputs()"
    """Python that makes the arguments."""

    @property
    def name(self) -> str:
        return self.target.partition(":")[0].removesuffix(".py").replace("/", "_")


MODULES = (
    User(target="llama_norm.py:make_norm()", make="make_norm()"),
    User(target="config_block.py:build()", make="build()"),
    User(target="keyword_scale.py", make="ScaledTanh(size=256, temperature=3.0)"),
    User(target="running_stats.py:FeatureScaler", make="FeatureScaler()"),
    User(target="two_results.py", make="Moments()"),
    User(target="named_results.py", make="Heads()"),
    User(target="train_script.py:Mish", make="Mish()"),
    User(target="layers/block.py:Residual", make="Residual()"),
    User(target="softcap.py:softcap", make="softcap"),
    User(target="head.py:head", make="head"),
    User(target="encoder.py:Encoder::layers.1.norm", make="Encoder()"),
    User(target="image_affine.py", make="ImageAffine()"),
    User(target="token_types.py", make="TokenTypes()"),
    User(target="masked_scores.py", make="MaskedScores()"),
    User(target="list_of_features.py", make="Mixer()"),
    User(target="optional_residual.py", make="AddGelu()"),
    User(target="robust_loss.py", make="RobustLoss()"),
    User(target="inherited.py:SwishWithFloor", make="SwishWithFloor()"),
    User(
        target="no_inputs.py",
        make="Blend()",
        options=("--input", "ours=randn(512,256)", "--input", "theirs=randn(512,256)"),
        inputs="[torch.randn(512, 256), torch.randn(512, 256)]",
    ),
    User(target="half_norm.py", make="UnitRows()"),
)
QUICK = ("softcap", "named_results", "encoder", "layers_block", "list_of_features")
"""The five of the default run: a function, a dict of results, a module inside, relative imports, a list of inputs."""

ON_GPU = ("softcap", "llama_norm", "two_results", "layers_block", "masked_scores")
"""The five of `make gpu`: a function, bfloat16, two results, relative imports, a mask."""

USE = """
import copy, importlib.util, os, sys
from pathlib import Path
import torch

stem, package_name, make, inputs, submodule, class_name, device = sys.argv[1:]
user = importlib.import_module(stem)


def placed(value):
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, (list, tuple)):
        return type(value)(map(placed, value))
    return {key: placed(one) for key, one in value.items()} if isinstance(value, dict) else value


def imported(guard):
    for name in [name for name in sys.modules if name.partition(".")[0] == package_name]:
        del sys.modules[name]
    os.environ["KEVIN_GUARD"] = guard
    return importlib.import_module(package_name)


def fresh(value):
    return value.to(device).eval() if isinstance(value, torch.nn.Module) else value


def used(package):
    '''The user's own thing, with the kernel, by whatever the package offers.'''
    if not isinstance(original, torch.nn.Module):
        return getattr(package, make)
    if make.startswith(class_name + "(") and not submodule:
        mine = eval(make, {**vars(user), class_name: getattr(package, class_name)}).to(device).eval()
        mine.load_state_dict(original.state_dict(), strict=True)
        return mine
    mine = copy.deepcopy(original)
    package.patch(mine)
    return mine


def call(thing):
    return thing(**given) if isinstance(given, dict) else thing(*given)


def smaller(value):
    if isinstance(value, torch.Tensor):
        return value[: value.shape[0] // 2].clone(memory_format=torch.preserve_format)
    if isinstance(value, (list, tuple)):
        return type(value)(map(smaller, value))
    return {key: smaller(one) for key, one in value.items()} if isinstance(value, dict) else value


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-3)


torch.manual_seed(1)
original = fresh(eval(make, vars(user)))
given = placed(eval(inputs, vars(user)))
inside = given
with torch.no_grad():
    expected = call(original)
    mine = used(imported("strict"))
    close(call(mine), expected)
    assert package_name + ".kernel" in sys.modules
    torch.compiler.reset()
    close(torch.compile(call, fullgraph=True, backend="aot_eager")(mine), expected)
    given = smaller(given)
    expected = call(original)
    try:
        call(mine)
    except RuntimeError as error:
        assert type(error).__name__ == "OutsideContract", error
    else:
        raise AssertionError("the guard let other shapes in")
    mine = used(imported(""))
    torch.testing.assert_close(call(mine), expected, rtol=0, atol=0)
    given = inside
    kernel = sys.modules.get(package_name + ".kernel")
    assert kernel is None, "the kernel ran outside of the contract"
    call(mine)
    assert package_name + ".kernel" in sys.modules
assert importlib.util.find_spec("kevin_cli") is None
assert Path(sys.modules[package_name].__file__).is_relative_to(sys.prefix)
"""
"""A program in a process of its own, as a user writes it. Under `KEVIN_GUARD=strict` an answer is the kernel's."""
