"""What runs inside the user's own command to see their modules at work. Standard library and torch only.

A third program beside reference and worker, but one that kevin does not start itself: `site/sitecustomize.py`
is put on the path of the user's command and loads `hook.py`, which wraps the calls of `nn.Module`.
"""
