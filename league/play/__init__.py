"""How matches are played: lanes of rows, learner and frozen seats, evaluation between fixed agents, checks of a game.

Imports the ground and `league.maths`. Begin with `rollout.py`, which plays T steps of B rows.
"""
