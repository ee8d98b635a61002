"""Programs of a training run end with whoever started them, however that ends.

Run as a program (`python -m trainer.together …`) it is torch's launcher of several ranks, tied to ours.
"""

from __future__ import annotations

from kevin_cli.harness.pool_serve import end_with_parent


def main() -> None:
    from torch.distributed.run import main as run

    end_with_parent()
    run()


if __name__ == "__main__":
    main()
