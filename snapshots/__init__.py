if __name__ == "snapshots":
    raise ImportError("import league.snapshots, not snapshots")
