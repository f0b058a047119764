"""Who is in the pool and who meets whom: members, results, samplers, the roles of a league and its file.

Imports the ground, `league.maths` and `league.play`. Begin with `pool.py`.
"""
