"""A task and a candidate by name; nothing of them is looked at."""

from kevin_cli.types import Candidate, Contract, DeviceKind, Target, Task, Tree


def task(name):
    return Task(
        name=name, digest=name, target=Target(path="/task.py", class_name="Model", python="python"), source="",
        init=Tree(kind="tuple"), init_keywords=Tree(kind="dict"), inputs=Tree(kind="tuple"), outputs=Tree(kind="tuple"),
        output_specs=(), parameters=(), contract=Contract(device=DeviceKind.CPU, inputs=()), graph=None,
    )  # fmt: skip


def candidate(name):
    return Candidate(source=name, digest=name)
