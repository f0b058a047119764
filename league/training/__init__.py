"""How an agent learns: the loop of a run, PPO over segments, and what watches over its numbers.

Imports the ground, `league.maths`, `league.store`, `league.play` and `league.pool`. Begin with `loop.py`.
"""
