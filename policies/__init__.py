if __name__ == "policies":
    raise ImportError("import league.policies, not policies")
