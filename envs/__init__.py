if __name__ == "envs":
    raise ImportError("import league.envs, not envs")
