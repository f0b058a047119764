"""`python -m league` is `league`."""

from league.cli import main

main()
