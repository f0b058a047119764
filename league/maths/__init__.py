"""Pure mathematics: ratings, sequential tests, schedules of games, the metagame, game trees.

Imports `league.errors` and `league.types` alone; numpy and scipy in, numbers out. Begin with `ratings.py`.
"""
