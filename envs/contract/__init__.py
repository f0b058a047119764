"""The match-batch contract, held against games: by one step, by runs, by name."""
