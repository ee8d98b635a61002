"""Presets are complete, overrides are typed, and what is not known is an error with the nearest name."""

from __future__ import annotations

from pathlib import Path

import pytest

from kevin_cli.errors import UsageError
from trainer.configured import load, preset_names


def test_the_four_presets_are_there() -> None:
    assert preset_names() == ["cpu-smoke", "h200-mini", "kevin-32b", "kevin-next"]


def test_the_published_run_is_as_published() -> None:
    config = load("kevin-32b")
    assert (config.tasks.per_batch, config.rollout.num_trajectories, config.rollout.num_turns) == (8, 16, 4)
    assert config.batch_rows == 512
    assert config.num_steps == 80
    assert (config.reward.gamma, config.reward.form, config.reward.correct_weight) == (0.4, "sum", 0.3)
    learn = config.learn
    assert (learn.clip_low, learn.clip_high, learn.kl, learn.max_grad_norm) == (0.2, 0.28, 0.0, 0.05)
    assert (learn.learning_rate, learn.updates_per_batch, learn.advantage) == (2e-6, 2, "pooled")


def test_the_next_preset_states_only_what_differs() -> None:
    published, later = load("kevin-32b"), load("kevin-next")
    changed = {name for name in type(published).model_fields if getattr(published, name) != getattr(later, name)}
    assert changed == {"name", "judge", "reward", "learn"}


def test_an_override_is_toml_or_a_bare_word() -> None:
    config = load("kevin-32b", ["learn.kl=0.01", "rollout.style=general", "watch.report_to=[]", "learn.clip_low=0"])
    assert config.learn.kl == 0.01
    assert config.rollout.style == "general"
    assert config.watch.report_to == ()
    assert config.learn.clip_low == 0.0


@pytest.mark.parametrize(
    ("override", "message", "hint"),
    [
        ("learn.clip_hihg=1", "there is no setting learn.clip_hihg", "did you mean learn.clip_high?"),
        ("lern.kl=1", "there is no setting lern", "did you mean learn?"),
        ("learn.kl=high", "learn.kl: ", "its form"),
        ("learn.num_batches=1.5", "learn.num_batches: ", "its form"),
        ("learn.kl", "there is no '='", "--set section.key=value"),
        ("learn.kl.x=1", "kl is a value, not a section", "--set section.key=value"),
        ("learn=3", "learn is a section, not a value", "[learn]"),
    ],
)
def test_a_wrong_override_is_one_clear_error(override: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        load("kevin-32b", [override])
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_file_builds_on_a_preset(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('preset = "cpu-smoke"\nname = "mine"\n[learn]\nkl = 0.5\n')
    config = load(str(path))
    assert (config.name, config.learn.kl, config.learn.num_batches) == ("mine", 0.5, 1)


def test_an_unknown_preset_names_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        load("kevin32b")
    assert "kevin-32b" in caught.value.hint


def test_a_file_that_is_not_toml_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("this is not")
    with pytest.raises(UsageError, match="is not TOML"):
        load(str(path))
