"""The tensors that train are held to the objective in plain numbers, on a real model's micro-batch."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from train_samples import task

pytest.importorskip("trl", reason="needs the extra train")
torch = pytest.importorskip("torch")

from trainer.configured import load  # noqa: E402
from trainer.encode import Encoder  # noqa: E402
from trainer.engines import SpokenEngine  # noqa: E402
from trainer.grpo import KevinTrainer, Worker, build  # noqa: E402
from trainer.models import load_model, load_tokenizer  # noqa: E402
from trainer.objective import batch_loss, truncated_importance  # noqa: E402
from trainer.places import Places  # noqa: E402

PROMPTS = [[5, 6, 7], [8]]
COMPLETIONS = [[9, 10, 11, 12], [13, 14]]
ADVANTAGES = [1.5, -0.5]


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> KevinTrainer:
    config = load("cpu-smoke", ["learn.micro_batch=2", "rollout.max_completion_tokens=50"])
    encoder = Encoder(load_tokenizer(config.model), opens_think=False)
    worker = Worker(
        config=config,
        places=Places(tmp_path_factory.mktemp("run")),
        tasks={},
        policy=None,  # type: ignore[arg-type]
        engine=SpokenEngine(),
        encoder=encoder,
        open_pool=None,  # type: ignore[arg-type]
        batch_done=None,  # type: ignore[arg-type]
    )
    made = build(worker, load_model(config.model), [task().digest] * 2, [])
    made.current_gradient_accumulation_steps = 1
    made.model.train()
    return made


def inputs(trainer: KevinTrainer, old: Any, *, prompt_width: int = 3, completion_width: int = 4) -> dict[str, Any]:
    """The two rows as TRL pads them: prompts on the left, completions on the right."""
    prompt_ids = torch.full((2, prompt_width), 1)
    completion_ids, mask = torch.full((2, completion_width), 1), torch.zeros(2, completion_width, dtype=torch.long)
    prompt_mask = torch.zeros(2, prompt_width, dtype=torch.long)
    for row, (prompt, completion) in enumerate(zip(PROMPTS, COMPLETIONS, strict=True)):
        prompt_ids[row, prompt_width - len(prompt) :] = torch.tensor(prompt)
        prompt_mask[row, prompt_width - len(prompt) :] = 1
        completion_ids[row, : len(completion)] = torch.tensor(completion)
        mask[row, : len(completion)] = 1
    return {
        "prompt_ids": prompt_ids,
        "prompt_mask": prompt_mask,
        "completion_ids": completion_ids,
        "completion_mask": mask,
        "advantages": torch.tensor(ADVANTAGES),
        "old_per_token_logps": torch.nn.functional.pad(old, (0, completion_width - old.size(1))),
        "num_items_in_batch": mask.sum(),
    }


def logprobs(trainer: KevinTrainer) -> list[list[float]]:
    """Of each completion token, at the sampling temperature, one row at a time and without any padding."""
    found = []
    for prompt, completion in zip(PROMPTS, COMPLETIONS, strict=True):
        with torch.no_grad():
            logits = trainer.model(input_ids=torch.tensor([[*prompt, *completion]])).logits[0, len(prompt) - 1 : -1]
        scaled = (logits / trainer.temperature).log_softmax(-1)
        found.append(scaled.gather(1, torch.tensor(completion)[:, None]).squeeze(1).tolist())
    return found


def off_policy(now: list[list[float]]) -> Any:
    """Older log-probabilities that put ratios on both sides of both clips."""
    shifts = [[0.5, -0.5, 0.1, 0.0], [0.4, -0.4]]
    rows = [[n - s for n, s in zip(row, shift, strict=True)] for row, shift in zip(now, shifts, strict=True)]
    return torch.tensor([row + [0.0] * (4 - len(row)) for row in rows])


def test_the_trained_loss_is_the_published_objective(trainer: KevinTrainer) -> None:
    now = logprobs(trainer)
    old = off_policy(now)
    expected = batch_loss(
        now, [row[: len(n)] for row, n in zip(old.tolist(), now, strict=True)], ADVANTAGES, 50, 0.2, 0.28
    )
    assert float(trainer._compute_loss(trainer.model, inputs(trainer, old))) == pytest.approx(expected, abs=1e-6)


def test_the_padding_of_a_whole_batch_changes_nothing(trainer: KevinTrainer) -> None:
    old = off_policy(logprobs(trainer))
    tight = float(trainer._compute_loss(trainer.model, inputs(trainer, old)))
    wide = float(trainer._compute_loss(trainer.model, inputs(trainer, old, prompt_width=40, completion_width=30)))
    assert wide == pytest.approx(tight, abs=1e-6)


def test_padding_is_cut_before_the_model_sees_it(trainer: KevinTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    widths = []
    forward = trainer.model.forward

    def spy(*args: Any, **more: Any) -> Any:
        widths.append(more["input_ids"].size(1))
        return forward(*args, **more)

    monkeypatch.setattr(trainer.model, "forward", spy)
    old = off_policy(logprobs(trainer))
    widths.clear()
    trainer._compute_loss(trainer.model, inputs(trainer, old, prompt_width=40, completion_width=30))
    assert widths == [3 + 4]


def test_a_longer_limit_weighs_every_token_less(trainer: KevinTrainer) -> None:
    old = off_policy(logprobs(trainer))
    before = float(trainer._compute_loss(trainer.model, inputs(trainer, old)))
    trainer.max_completion_length = 100
    after = float(trainer._compute_loss(trainer.model, inputs(trainer, old)))
    trainer.max_completion_length = 50
    assert after == pytest.approx(before / 2, rel=1e-5)


def test_importance_is_the_trainer_over_the_sampler_for_each_token_and_cut_at_its_cap(trainer: KevinTrainer) -> None:
    now, shifts = logprobs(trainer), [[1.0, 0.5, -0.5, 0.0], [-2.0, 0.1]]
    sampled = [[n - s for n, s in zip(row, shift, strict=True)] for row, shift in zip(now, shifts, strict=True)]
    made = inputs(trainer, off_policy(now)) | {"old_per_token_logps": None}
    made["sampling_per_token_logps"] = torch.tensor([row + [0.0] * (4 - len(row)) for row in sampled])
    expected = [
        [truncated_importance(n, s) for n, s in zip(row, own, strict=True)]
        for row, own in zip(now, sampled, strict=True)
    ]
    assert expected[0] == pytest.approx([2.0, math.exp(0.5), math.exp(-0.5), 1.0])
    found = trainer._trust(made).tolist()
    assert found[0] == pytest.approx(expected[0], abs=1e-5)
    assert found[1] == pytest.approx([*expected[1], 1.0, 1.0], abs=1e-5)


def test_where_weights_and_arguments_go_is_as_configured(trainer: KevinTrainer, tmp_path: Path) -> None:
    from trainer.grpo import arguments, zero3

    config = load("kevin-32b", ["watch.report_to=[]", "judge.device=cuda"])
    assert zero3(config)["zero_optimization"]["offload_optimizer"]["device"] == "cpu"
    assert trainer.args.num_generations == trainer.worker.config.group_rows
    smoke = arguments(load("cpu-smoke", ["learn.reuse=parts"]), Places(tmp_path))
    assert (smoke.num_iterations, smoke.steps_per_generation) == (1, 2 * smoke.gradient_accumulation_steps)
    assert (trainer.args.num_iterations, trainer.args.loss_type, trainer.args.scale_rewards) == (2, "dr_grpo", "none")
