"""What is kept: every match, rating and event in one DuckDB file, its rows, exchange with other tools, locks.

Imports the ground and `league.maths`. Begin with `store.py`; `rows.py` says what the tables hold.
"""
