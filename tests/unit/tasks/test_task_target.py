"""TARGET and --python on the command line: every wrong one gets a line and a hint before torch starts."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path

import pytest

from kevin_cli.errors import ExitCode, TaskError, UsageError
from kevin_cli.tasks import parse_target
from kevin_cli.tasks.names import identifier, task_name
from kevin_cli.tasks.target import Given
from kevin_cli.types import Target

GOOD = """
from torch import nn
class Model(nn.Module):
    pass
def get_inputs():
    return []
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


def refusal(text: str, python: str | None = None) -> UsageError:
    with pytest.raises(UsageError) as caught:
        parse_target(text, python)
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.message
    assert caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint
    return caught.value


def test_a_plain_file_means_its_class_model(tmp_path: Path) -> None:
    file = write(tmp_path / "model.py", GOOD)
    assert parse_target(str(file)) == Target(path=str(file), class_name="Model", python=sys.executable)


def test_a_relative_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "model.py", GOOD)
    monkeypatch.chdir(tmp_path)
    assert parse_target("model.py").path == str(file)


def test_a_class_can_be_named_after_a_colon(tmp_path: Path) -> None:
    file = write(tmp_path / "net.py", GOOD.replace("Model", "Net"))
    assert parse_target(f"{file}:Net").class_name == "Net"


def test_the_only_module_class_needs_no_name(tmp_path: Path) -> None:
    file = write(tmp_path / "net.py", GOOD.replace("Model", "Net"))
    assert parse_target(str(file)).class_name == "Net"


def test_a_class_may_be_imported_or_assigned(tmp_path: Path) -> None:
    file = write(tmp_path / "net.py", "from lib import Net as Model\ndef get_inputs(): return []\n")
    assert parse_target(str(file)).class_name == "Model"
    file = write(tmp_path / "made.py", "Made = make()\ndef get_inputs(): return []\n")
    assert parse_target(f"{file}:Made").class_name == "Made"


def test_a_star_import_may_bring_anything(tmp_path: Path) -> None:
    file = write(tmp_path / "net.py", "from lib import *\n")
    assert parse_target(f"{file}:Net").class_name == "Net"


def test_a_missing_file_suggests_a_close_name(tmp_path: Path) -> None:
    write(tmp_path / "model.py", GOOD)
    error = refusal(str(tmp_path / "modle.py"))
    assert "there is no file" in error.message
    assert "model.py" in error.hint


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert "does not exist" in refusal(str(tmp_path / "nowhere" / "model.py")).hint


def test_a_directory_names_the_file_that_was_probably_meant(tmp_path: Path) -> None:
    write(tmp_path / "task" / "reference.py", GOOD)
    error = refusal(str(tmp_path / "task"))
    assert "is a directory" in error.message
    assert "reference.py" in error.hint


def test_a_language_model_directory_is_told_apart(tmp_path: Path) -> None:
    write(tmp_path / "llm" / "config.json", "{}")
    error = refusal(str(tmp_path / "llm"))
    assert "language model" in error.message
    assert "--model" in error.hint


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_bytes(b"\x7fELF\0\0\xff")
    assert "binary" in refusal(str(file)).message


def test_a_weights_file_is_refused_without_reading_it(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"abc")
    assert "weights" in refusal(str(file)).message


def test_text_in_another_encoding_without_a_declaration_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_bytes("x = 'é'\n".encode("latin-1"))
    assert "not Python source" in refusal(str(file)).message


@pytest.mark.parametrize("text", ["", "  \n\n"])
def test_an_empty_file_is_refused(tmp_path: Path, text: str) -> None:
    assert "empty" in refusal(str(write(tmp_path / "model.py", text))).message


def test_a_file_of_comments_holds_no_code(tmp_path: Path) -> None:
    assert "no code" in refusal(str(write(tmp_path / "model.py", "# nothing\n"))).message


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "model.py", GOOD)
    file.chmod(0)
    assert "can't read" in refusal(str(file)).message


def test_a_device_file_is_refused() -> None:
    assert "regular file" in refusal("/dev/null").message


def test_a_syntax_error_names_its_line(tmp_path: Path) -> None:
    file = write(tmp_path / "model.py", "import torch\nclass Model(:\n")
    assert f"{file}:2" in refusal(str(file)).message


def test_a_misspelt_class_gets_a_suggestion(tmp_path: Path) -> None:
    file = write(tmp_path / "model.py", GOOD)
    error = refusal(f"{file}:Modle")
    assert "no class Modle" in error.message
    assert "model.py:Model" in error.hint


def test_several_classes_and_none_called_model_must_be_named(tmp_path: Path) -> None:
    text = GOOD.replace("Model", "A") + "\nclass B(A):\n    pass\n"
    error = refusal(str(write(tmp_path / "model.py", text)))
    assert "model.py:A, model.py:B" in error.hint


def test_a_file_without_any_class_is_refused(tmp_path: Path) -> None:
    assert "no class Model" in refusal(str(write(tmp_path / "model.py", "x = 1\n"))).message


def test_a_file_without_get_inputs_is_refused(tmp_path: Path) -> None:
    text = GOOD.replace("get_inputs", "other")
    assert "get_inputs" in refusal(str(write(tmp_path / "model.py", text))).message


def test_rubbish_after_the_colon_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "model.py", GOOD)
    assert "not a class name" in refusal(f"{file}:3-x").message


def test_a_python_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "model.py", GOOD)
    assert "--python" in refusal(str(file), "/no/such/python").message
    assert "--python" in refusal(str(file), str(tmp_path)).message


def test_a_virtual_environment_means_its_interpreter(tmp_path: Path) -> None:
    file = write(tmp_path / "model.py", GOOD)
    link = tmp_path / "venv" / "bin" / "python"
    link.parent.mkdir(parents=True)
    link.symlink_to(sys.executable)
    assert parse_target(str(file), str(tmp_path / "venv")).python == str(link)
    assert parse_target(str(file), str(link)).python == str(link)


def test_syntax_of_another_interpreter_is_left_to_it(tmp_path: Path) -> None:
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    file = write(tmp_path / "model.py", "class Model(:\n")
    assert parse_target(str(file), str(link)).class_name == "Model"


def test_a_fault_of_the_file_is_a_task_error(tmp_path: Path) -> None:
    assert isinstance(refusal(str(tmp_path / "none.py")), TaskError)


@pytest.mark.parametrize(
    ("path", "class_name", "name"),
    [
        ("/x/rms_norm/reference.py", "Model", "rms_norm"),
        ("/x/my_net.py", "Model", "my_net"),
        ("/x/my_net.py", "LlamaMLP", "llama_mlp"),
        ("/x/40_LayerNorm.py", "Model", "layer_norm_40"),
        ("/x/7.py", "Model", "task_7"),
        ("/x/a-b c.py", "Model", "a_b_c"),
        ("/x/ü.py", "Model", "task"),
    ],
)
def test_a_task_is_named_after_what_was_named(path: str, class_name: str, name: str) -> None:
    assert task_name(Target(path=path, class_name=class_name, python="python")) == name


def test_names_can_be_imported() -> None:
    assert all(identifier(text).isidentifier() for text in ["3 x", "..", "", "Conv2dReLU", "_a_"])


def test_a_name_of_the_users_own_goes_before_all_others(tmp_path: Path) -> None:
    file = tmp_path / "b.py"
    file.write_text("import torch\nclass Norm(torch.nn.Module):\n    pass\n\ndef get_inputs():\n    return []\n")
    assert task_name(parse_target(f"{file}:Norm")) == "norm"
    assert task_name(parse_target(f"{file}:Norm", given=Given(name="My-Norm 2"))) == "my_norm_2"
