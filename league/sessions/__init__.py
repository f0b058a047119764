"""Whole runs: made, resumed, interrupted, sized and pruned; leagues of several learners; exploiters.

Imports every room. Begin with `app.py`, whose `train` makes a run.
"""
