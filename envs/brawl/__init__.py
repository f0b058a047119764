"""Brawl, a two-player platform fighter. `env.py` is the way in; nothing here loads the compiled rules."""
