"""`python -m league` is `league`."""

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until `main` minds signals, Ctrl+C ends it without a traceback

from league.cli import main

if __name__ == "__main__":
    main()
