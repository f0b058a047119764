"""Small games whose right answers are known."""
