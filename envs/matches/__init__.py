"""Matches in plain Python: `Match`, and many of them as one batch."""
