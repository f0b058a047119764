"""What shows a store to people who are not at the terminal: report, live page, notebook, trackers.

Faces read the store or watch a training; training does not know of them, and they write nothing into the store.
Begin with `report.py`.
"""
