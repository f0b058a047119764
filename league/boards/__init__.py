"""What is read out of the store: the leaderboard, matchups, the cross table and its picture, alarms.

Imports the ground, `league.maths` and `league.store`; never torch. Begin with `standings.py`.
"""
