"""The verbs of `kevin`, one a file: name, help and options. What a verb does is imported when it runs.

A file here has one function, `command`, whose docstring is the help, and is listed in `app.VERBS`.
"""
