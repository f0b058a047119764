"""Words of a line, whatever stands between them."""


def has_row(text: str, row: str) -> bool:
    """Whether one line of `text` has all words of `row` in their order."""

    def holds(line: str) -> bool:
        left = iter(line.split())
        return all(word in left for word in row.split())

    return any(map(holds, text.splitlines()))
