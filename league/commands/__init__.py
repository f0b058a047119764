"""The commands: each parses, calls one function of the library, and prints. Data to stdout, talk to stderr.

Begin with `options.py`, which has the app and what commands share; `completion.py` is what a shell offers. Heavy
imports stay in the commands.
"""
