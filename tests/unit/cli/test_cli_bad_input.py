"""Bad input: one clear line and a hint on stderr, nothing on stdout, no traceback, the right exit code."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_samples import KEVIN, Kevin, environment

MODULE = """import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0


def get_inputs():
    return [torch.randn(8, 16)]
"""


def said(done: subprocess.CompletedProcess[str], code: int) -> str:
    """The one line of error, after everything that holds for all of them."""
    lines = done.stderr.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    assert done.returncode == code, done.stderr
    assert len(errors) == 1, done.stderr
    assert [line for line in lines if line.startswith("hint: ")], done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return errors[0]


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# --- TARGET ----------------------------------------------------------------------------------------


def test_a_missing_file(kevin: Kevin) -> None:
    assert "nowhere.py" in said(kevin("optimize", "nowhere.py"), 2)


def test_a_missing_class(kevin: Kevin, tmp_path: Path) -> None:
    write(tmp_path / "model.py", MODULE)
    assert "Modell" in said(kevin("optimize", "model.py:Modell"), 2)


def test_a_directory(kevin: Kevin, tmp_path: Path) -> None:
    assert "directory" in said(kevin("optimize", tmp_path), 2)


def test_a_binary_file(kevin: Kevin, tmp_path: Path) -> None:
    write(tmp_path / "model.py", b"\x7fELF\0\0\xff\xfe")
    assert "binary" in said(kevin("optimize", "model.py"), 2)


def test_an_empty_file(kevin: Kevin, tmp_path: Path) -> None:
    write(tmp_path / "model.py", "\n")
    assert "empty" in said(kevin("optimize", "model.py"), 2)


def test_a_module_that_raises_on_import(kevin: Kevin, tmp_path: Path) -> None:
    write(tmp_path / "model.py", MODULE + "\nraise ValueError('not today')\n")
    assert "not today" in said(kevin("optimize", "model.py", "--device", "cpu"), 2)


def test_a_module_that_raises_when_called(kevin: Kevin, tmp_path: Path) -> None:
    write(tmp_path / "model.py", MODULE.replace("return torch.relu(x) * 2.0", "raise ValueError('not this way')"))
    assert "not this way" in said(kevin("optimize", "model.py", "--device", "cpu"), 2)


def test_inputs_that_do_not_fit(kevin: Kevin, tmp_path: Path) -> None:
    write(tmp_path / "model.py", MODULE.replace("[torch.randn(8, 16)]", "[torch.randn(8, 16), 3]"))
    assert "get_inputs() gives" in said(kevin("optimize", "model.py", "--device", "cpu"), 2)


def test_a_module_that_computes_nothing(kevin: Kevin, tmp_path: Path) -> None:
    write(tmp_path / "model.py", MODULE.replace("torch.relu(x) * 2.0", "x.view(-1)"))
    assert "computes nothing" in said(kevin("optimize", "model.py", "--device", "cpu"), 5)


# --- where and with what ---------------------------------------------------------------------------


def test_a_gpu_that_is_not_there(kevin: Kevin, tmp_path: Path) -> None:
    write(tmp_path / "model.py", MODULE)
    done = kevin("optimize", "model.py", "--device", "cuda", CUDA_VISIBLE_DEVICES="", PATH="/usr/bin:/bin")
    assert "CUDA" in said(done, 3)


def test_an_interpreter_that_is_not_one(kevin: Kevin, tmp_path: Path) -> None:
    write(tmp_path / "model.py", MODULE)
    assert "interpreter" in said(kevin("optimize", "model.py", "--python", "no-such-python"), 2)


def test_a_place_that_is_taken(kevin: Kevin, tmp_path: Path) -> None:
    write(tmp_path / "model.py", MODULE)
    (tmp_path / "model_kevin").mkdir()
    write(tmp_path / "model_kevin" / "thesis.txt", "years of work")
    assert "was not written by kevin" in said(kevin("optimize", "model.py", "--device", "cpu"), 2)


def test_a_model_directory_without_weights(kevin: Kevin, tmp_path: Path) -> None:
    write(tmp_path / "model.py", MODULE)
    (tmp_path / "llm").mkdir()
    write(tmp_path / "llm" / "config.json", "{}")
    assert "no weights" in said(kevin("optimize", "model.py", "--device", "cpu", "--model", "llm"), 2)


# --- endpoints -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ((401, b'{"error": {"message": "no such key"}}', 0.0), "no such key"),
        ((200, b"<html>hello</html>", 0.0), "not with a list of models"),
        ((200, b'{"object": "list", "data": []}', 0.0), "lists no model"),
        ((200, b"", 60.0), "did not answer"),
    ],
)
def test_an_endpoint_that_refuses_or_answers_rubbish_or_not_at_all(
    kevin: Kevin, tmp_path: Path, serve: Callable[..., str], reply: tuple[int, bytes, float], words: str
) -> None:
    write(tmp_path / "model.py", MODULE)
    done = kevin("optimize", "model.py", "--device", "cpu", "--endpoint", serve(*reply))
    assert words in said(done, 2)


def test_an_endpoint_where_nobody_listens(kevin: Kevin, tmp_path: Path) -> None:
    write(tmp_path / "model.py", MODULE)
    done = kevin("optimize", "model.py", "--device", "cpu", "--endpoint", "http://127.0.0.1:9/v1")
    assert "no server answers" in said(done, 2)


# --- the command line and its layers ---------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments", [["--turns", "many"], ["--turns", "0"], ["--no-such-option"], ["--device", "tpu"]]
)
def test_an_option_that_does_not_fit(kevin: Kevin, tmp_path: Path, arguments: list[str]) -> None:
    write(tmp_path / "model.py", MODULE)
    assert arguments[0] in said(kevin("optimize", "model.py", *arguments), 2)


def test_an_unknown_key_in_pyproject_comes_with_a_suggestion(kevin: Kevin, tmp_path: Path) -> None:
    write(tmp_path / "model.py", MODULE)
    write(tmp_path / "pyproject.toml", "[tool.kevin]\ntrajectorys = 3\n")
    done = kevin("optimize", "model.py")
    assert "trajectorys" in said(done, 2)
    assert "did you mean 'trajectories'?" in done.stderr


def test_a_misspelt_variable_comes_with_a_suggestion(kevin: Kevin) -> None:
    done = kevin("optimize", "model.py", KEVIN_TURN="3")
    assert "KEVIN_TURN" in said(done, 2)
    assert "did you mean KEVIN_TURNS?" in done.stderr


def test_a_verb_that_is_none(kevin: Kevin) -> None:
    assert "optimise" in said(kevin("optimise"), 2)


# --- the other verbs -------------------------------------------------------------------------------


def test_a_candidate_that_is_missing(kevin: Kevin, tmp_path: Path) -> None:
    write(tmp_path / "model.py", MODULE)
    assert "nowhere.py" in said(kevin("check", "model.py", "nowhere.py"), 2)


def test_a_run_that_is_not_recorded(kevin: Kevin) -> None:
    assert "no run" in said(kevin("show"), 2)
    assert "no run" in said(kevin("show", "yesterday"), 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [("tool = 3\n", "tool in"), ("[tool]\nkevin = 3\n", "tool.kevin in"), ("tool.kevin = []\n", "tool.kevin in")],
)
def test_a_table_in_pyproject_that_is_none(kevin: Kevin, tmp_path: Path, text: str, words: str) -> None:
    write(tmp_path / "pyproject.toml", text)
    line = said(kevin("config", "show"), 2)
    assert words in line
    assert "is no table" in line


def test_where_the_inputs_come_from(kevin: Kevin, tmp_path: Path) -> None:
    write(tmp_path / "model.py", MODULE)
    for inputs, words in [("nosuch.py", "no file nosuch.py"), ("model.py:nosuch", "no nosuch()"), (".", "directory")]:
        done = kevin("optimize", "model.py", "--inputs", inputs)
        assert words in said(done, 2)
        assert "class Model" not in done.stderr, "the hint is about inputs, not about tasks"


def test_a_list_of_runs_is_no_test(kevin: Kevin) -> None:
    line = said(kevin("runs", "list", "--output-format", "junit"), 2)
    assert "'junit' is not one of 'text', 'json', 'jsonl'" in line
    assert "Value error" not in line
    assert "junit" not in kevin("runs", "list", "--help").stdout


# --- where the output goes -------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [["--help"], ["config", "show"], ["config", "show", "--json"]])
def test_an_output_without_room_and_one_that_nobody_reads(tmp_path: Path, verb: list[str]) -> None:
    def to(stdout: object) -> subprocess.CompletedProcess[str]:
        command, env = [str(KEVIN), *verb], environment(tmp_path)
        return subprocess.run(command, cwd=tmp_path, env=env, stdout=stdout, stderr=subprocess.PIPE, text=True)  # type: ignore[call-overload,no-any-return]

    with open("/dev/full", "w") as full:
        done = to(full)
    assert (done.returncode, "No space left" in done.stderr, "Traceback" in done.stderr) == (3, True, False)
    reader, writer = os.pipe()
    os.close(reader)
    done = to(writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")
