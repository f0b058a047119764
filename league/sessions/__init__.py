"""Whole runs: made, resumed, interrupted, sized and pruned; leagues of several learners; exploiters.

Imports every room. Begin with `session.py`, which trains; `app.py`, `leagues.py` and
`exploitability.py` make its plans.
"""
