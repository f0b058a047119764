"""`python -m league` is `league`."""

import os
import signal

from league import _SPINS

os.environ.setdefault(*_SPINS)  # this process is our own, and so are those that it starts
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until `main` minds signals, Ctrl+C ends it without a traceback

from league.cli import main

if __name__ == "__main__":
    main()
