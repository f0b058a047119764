"""What a process runs on: its device, its signals, its files, and the names of its phases. Begin with `device.py`."""
