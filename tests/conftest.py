"""One thread a process, those that tests start included: small tensors gain nothing from more, and on a busy machine
threads wait for each other."""

import os

os.environ["OMP_NUM_THREADS"] = "1"
