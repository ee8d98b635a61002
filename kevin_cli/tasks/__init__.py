"""A user's module as a task: find it, check what can be checked without running it, and give it a form.

`target.py` reads the command line's TARGET, `names.py` makes short names, `lower.py` turns what the
reference process describes into a `types.Task`, `estimate.py` says what a task must at least move. Nothing
here imports torch or runs the user's code.
"""

from kevin_cli.tasks.estimate import compulsory_bytes, has_compute
from kevin_cli.tasks.lower import lower
from kevin_cli.tasks.target import parse_target

__all__ = ["compulsory_bytes", "has_compute", "lower", "parse_target"]
