"""`kevin-train` from the outside: plans, probes, curves, and bad input in one clear line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from trainer.app import main


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def kevin_train(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    def call(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["kevin-train", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return Done(int(ended.value.code or 0), shown.out, shown.err)

    return call


def test_help_lists_the_verbs_and_imports_nothing_heavy() -> None:
    program = (
        "import sys\nfrom trainer import app\n"
        "heavy = {'torch', 'transformers', 'trl', 'datasets', 'ray', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\nprint(*(command.name for command in app.app.registered_commands))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {"run", "rollout", "sft", "eval", "plot", "export", "doctor"} <= set(done.stdout.split())


def test_a_dry_run_prints_the_arithmetic_and_touches_nothing(kevin_train: Callable[..., Done], tmp_path: Path) -> None:
    done = kevin_train("run", "--preset", "kevin-32b", "--dry-run", "--out", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    assert "8 tasks × 16 trajectories × 4 turns" in done.stdout
    assert "planned" in done.stdout
    assert not (tmp_path / "run").exists()


def test_a_dry_run_of_what_can_not_work_says_why_and_leaves_with_2(kevin_train: Callable[..., Done]) -> None:
    done = kevin_train("run", "--preset", "kevin-32b", "--dry-run", "--json", "--set", "tasks.per_batch=6")
    assert done.returncode == 2
    plain = json.loads(done.stdout)
    assert plain["schema_version"] == 1
    assert any("not a multiple of 64" in reason for reason in plain["refused"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "--preset", "kevin-33b"), "no preset and no file 'kevin-33b'"),
        (("run", "--set", "learn.klll=1"), "there is no setting learn.klll"),
        (("run", "--preset", "kevin-32b", "--set", "tasks.per_batch=6"), "not a multiple of 64"),
        (("eval", "--policy", "nobody", "--tasks", "some"), "--tasks some"),
        (("eval", "--policy", "nobody", "--against", "jax"), "--against jax"),
        (("export", "nowhere", "--out", "x"), "no whole checkpoint"),
        (("plot", "nowhere"), "nothing to draw"),
    ],
)
def test_bad_input_is_one_clear_line_and_a_hint(
    kevin_train: Callable[..., Done],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = kevin_train(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr


def test_doctor_says_what_a_preset_lacks_here(kevin_train: Callable[..., Done]) -> None:
    done = kevin_train("doctor", "--preset", "cpu-smoke", "--set", "tasks.per_batch=3", "--json")
    found = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert done.returncode == 3
    assert found["arithmetic"]["state"] == "missing"
    assert found["device"]["state"] == "ok"
    assert found["weights"]["text"] == "random"


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_curves_are_drawn_from_the_log_alone(ending: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra plots")
    from trainer.places import append_line, read_lines
    from trainer.plots import draw, panels

    log = tmp_path / "log.jsonl"
    for number in range(4):
        turns = [
            {"turn": n, "reward": 0.1 * number + n, "correct": 0.5, "speedup": None, "num_tokens": 90.0}
            for n in range(2)
        ]
        batch = {"kind": "batch", "batch": number, "reward": 0.1 * number, "by_turn": turns, "not_okay": 0.0}
        rest = {"repetition": 0.0, "cut_off": 0.1, "flat_groups": 0.2, "num_candidates": 8, "num_unique": 4}
        append_line(log, {**batch, **rest, "rollout_s": 3.0, "sync_s": 0.1})
        append_line(log, {"kind": "step", "batch": number, "step": number + 1, "grad_norm": 0.1, "entropy": 1.0})
    titles = {title: curves for title, _, curves in panels(read_lines(log))}
    assert [label for label, *_ in titles["mean reward"]] == ["turn 1", "turn 2", "all"]
    assert titles["equal groups, repeated candidates"][1][2] == [0.5] * 4
    assert "speedup of correct candidates, against eager" not in titles  # nobody was correct
    draw(log, tmp_path / f"curves.{ending}")
    assert (tmp_path / f"curves.{ending}").stat().st_size > 5000
