"""One thread a process: with nets as small as the tests', threads of a busy machine wait for each other for minutes."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
