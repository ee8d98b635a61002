"""The static stage: what a candidate's source may not use under the chosen rules.

Under `kernels` the computation must be the candidate's own: no layers of `torch.nn`, no operations of
`torch`, `torch.nn.functional` or tensors, no `@` in the methods that run, and no ATen computation in
the C++ text. Under `library` only what makes no sense is refused: no `ModelNew`, or a `ModelNew` that
inherits from the reference. Names are resolved through the imports; docstrings and comments are not
looked at.

Not promised: that nothing slips through. Source can be hidden from any reader; what decides about
correctness and time is measured elsewhere. This stage gives early, readable answers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from kevin_cli.types import Rules


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MODEL = "ModelNew"
ALLOWED_NN = _words(
    "Module Parameter ParameterList ParameterDict ModuleList ModuleDict Sequential Buffer init UninitializedParameter"
)
ALLOWED_TORCH = _words(
    "Tensor Size device dtype empty empty_like empty_strided zeros zeros_like ones ones_like full full_like tensor "
    "as_tensor no_grad inference_mode enable_grad set_grad_enabled get_default_dtype is_tensor is_floating_point "
    "broadcast_shapes promote_types finfo iinfo get_num_threads set_num_threads"
)
COMPUTING = _words(
    "abs add add_ addmm addmv addbmm baddbmm amax amin argmax argmin bmm ceil clamp clamp_ clamp_min clamp_max cos "
    "cosh cross cumprod cumsum div div_ dot eq erf erfc exp exp_ expm1 floor fmod ge gelu gt index_add index_select "
    "layer_norm le lerp log log10 log1p log2 log_softmax logsumexp lt masked_fill masked_fill_ matmul max mean median "
    "min minimum maximum mm mul mul_ mv ne neg norm pow pow_ prod reciprocal relu relu_ round rsqrt scatter "
    "scatter_add sigmoid sigmoid_ sign silu sin sinh softmax sort sqrt square std sub sub_ sum tan tanh tanh_ topk "
    "tril triu trunc var where"
)
COMPUTING_ROOTS = ("torch.nn.functional.", "torch.special.", "torch.linalg.", "torch.fft.", "torch.ops.aten.")
LOADERS = ("load_inline", "load")
ATEN_IN_CPP = re.compile(
    r"\b(?:at|torch)::(?:native::)?(?:nn::functional::)?(_?(?:matmul|mm|bmm|addmm|addmv|mv|dot|baddbmm|linear|conv\w*|"
    r"softmax|log_softmax|relu|gelu|silu|sigmoid|tanh|exp|log|sqrt|rsqrt|pow|sum|mean|var|std|max|min|norm|"
    r"layer_norm|batch_norm|group_norm|instance_norm|rms_norm|\w*pool\w*|einsum|cumsum|cumprod|logsumexp|"
    r"scaled_dot_product_attention|add|sub|mul|div|clamp|where|erf))_?\s*\("
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing against the rules and the line it is in."""

    line: int
    text: str


def check_rules(source: str, rules: Rules) -> tuple[Finding, ...]:
    """What is against the rules, in the order of the lines; nothing for source that does not parse.

    Source that does not parse is left to the build, which has the better message.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    found = list(_nonsense(tree))
    if rules is Rules.KERNELS and not found:
        names = _imports(tree)
        found = [*_layers(tree, names), *_operations(tree, names), *_aten(tree)]
    return tuple(sorted(set(found), key=lambda finding: (finding.line, finding.text)))


def _nonsense(tree: ast.Module) -> Iterator[Finding]:
    models = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == MODEL]
    assigned = any(isinstance(node, ast.Name) and node.id == MODEL for node in _stores(tree))
    if not models and not assigned:
        yield Finding(1, f"there is no class {MODEL}")
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    for model in models:
        for base in model.bases:
            if isinstance(base, ast.Name) and base.id == "Model" and "Model" not in own:
                yield Finding(model.lineno, f"{MODEL} inherits from the reference's Model, which is not there")


def _stores(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node
        if isinstance(node, ast.alias) and (node.asname or node.name) == MODEL:
            yield ast.Name(id=MODEL)


def _imports(tree: ast.Module) -> dict[str, str]:
    """Local name -> dotted name, for every import and for plain aliases such as `conv = torch.conv2d`."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            full = _dotted(node.value, names)
            if full.startswith("torch."):
                names.setdefault(node.targets[0].id, full)
    return names


def _dotted(node: ast.expr, names: dict[str, str]) -> str:
    """The full name of `F.relu` or `nn.Linear`; empty for what is not a name of a module's."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in names:
        return ""
    return ".".join([names[node.id], *reversed(parts)])


def _layers(tree: ast.Module, names: dict[str, str]) -> Iterator[Finding]:
    """Layers of torch.nn, wherever they are made or inherited from."""
    for node in ast.walk(tree):
        used = [node.func] if isinstance(node, ast.Call) else node.bases if isinstance(node, ast.ClassDef) else []
        for expression in used:
            name = _layer_name(_dotted(expression, names))
            if name:
                yield Finding(expression.lineno, f"torch.nn.{name} does the work of a kernel")


def _layer_name(full: str) -> str:
    if not full.startswith("torch.nn.") or full.startswith("torch.nn.functional."):
        return ""
    name = full.removeprefix("torch.nn.").removeprefix("modules.")
    return "" if name.split(".")[0] in ALLOWED_NN or "Parameter" in name else name


def _operations(tree: ast.Module, names: dict[str, str]) -> Iterator[Finding]:
    """Operations of torch and of tensors in code that runs in a call."""
    extensions = _extensions(tree)
    for function in _running(tree):
        for node in ast.walk(function):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
                yield Finding(node.lineno, "`@` is a matrix product of torch's")
            elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.MatMult):
                yield Finding(node.lineno, "`@=` is a matrix product of torch's")
            elif isinstance(node, ast.Call):
                yield from _call(node, names, extensions)
    yield from _stored(tree, names)


def _running(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.Lambda]:
    """Every function except constructors, which may compute initial weights."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda) or (isinstance(node, ast.FunctionDef) and node.name != "__init__"):
            yield node


def _computes(full: str) -> bool:
    """Whether a dotted name is an operation of torch's."""
    name = full.removeprefix("torch.")
    if full.startswith(COMPUTING_ROOTS):
        return True
    if full.startswith("torch.Tensor."):
        return name.removeprefix("Tensor.") in COMPUTING
    return full.startswith("torch.") and "." not in name and name not in ALLOWED_TORCH


def _call(node: ast.Call, names: dict[str, str], extensions: set[str]) -> Iterator[Finding]:
    full = _dotted(node.func, names)
    if _computes(full):
        yield Finding(node.lineno, f"{full} computes with torch")
    elif not full and isinstance(node.func, ast.Attribute) and _is_tensor_method(node.func, names, extensions):
        yield Finding(node.lineno, f".{node.func.attr}() of a tensor computes with torch")


def _stored(tree: ast.Module, names: dict[str, str]) -> Iterator[Finding]:
    """`self.act = torch.relu`: an operation that is kept to be called later."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            full = _dotted(node.value, names)
            if full.startswith(COMPUTING_ROOTS) or full.removeprefix("torch.") in COMPUTING:
                yield Finding(node.lineno, f"{full} computes with torch")


def _is_tensor_method(function: ast.Attribute, names: dict[str, str], extensions: set[str]) -> bool:
    """A computing method, unless it belongs to a module, to the candidate's own class or extension."""
    owner = function.value
    if function.attr not in COMPUTING:
        return False
    if isinstance(owner, ast.Name):
        return owner.id not in names and owner.id not in extensions and owner.id != "self"
    return not (isinstance(owner, ast.Attribute) and owner.attr in extensions)


def _extensions(tree: ast.Module) -> set[str]:
    """Names and attributes that hold what `load_inline` or `load` returned, also through other names."""
    found: set[str] = set()
    assigns = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    for _ in range(3):
        for assign in assigns:
            if _is_extension(assign.value, found):
                found |= {_last_part(target) for target in assign.targets}
    return found


def _is_extension(value: ast.expr, known: set[str]) -> bool:
    if isinstance(value, ast.Call):
        return _last_part(value.func) in LOADERS
    return _last_part(value) in known


def _last_part(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _aten(tree: ast.Module) -> Iterator[Finding]:
    """Calls that compute with ATen in the C++ text; found in string literals that look like C++."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "#include" in node.value:
            text = _without_comments(node.value)
            for match in ATEN_IN_CPP.finditer(text):
                line = node.lineno + text.count("\n", 0, match.start())
                yield Finding(line, f"{match.group(0).rstrip('( ')} in C++ computes with ATen")


def _without_comments(text: str) -> str:
    """C++ comments blanked out, line breaks kept."""
    pattern = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
    return pattern.sub(lambda match: "\n" * match.group(0).count("\n"), text)
