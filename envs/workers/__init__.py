"""Worker processes that step the rows of a slow game."""
