"""One thread a process, those that tests start included: small tensors gain nothing from more, and on a busy machine
threads wait for each other. And signals that end a process do so, also where the tests themselves run in the background
of a script, which ignores Ctrl+C: `league` leaves ignored what was ignored before it."""

import os
import signal

os.environ["OMP_NUM_THREADS"] = "1"
for name in ("SIGINT", "SIGTERM", "SIGHUP"):
    number = getattr(signal, name, None)
    if number is not None and signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL)
