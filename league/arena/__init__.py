"""Agents by name, and what they play outside training: evaluation, tournaments, gates, films.

Imports every room but `league.sessions`. Begin with `agents.py`.
"""
