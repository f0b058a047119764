"""What is kept: folders of runs and all that was played, their rows, exchange with other tools, locks.

Imports the ground and `league.maths`. Begin with `store.py`; `rows.py` says what the tables hold.
"""
