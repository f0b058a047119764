"""`league`: parse, call one function, print. Heavy imports stay inside the commands."""

import typer

app = typer.Typer(help=__doc__, no_args_is_help=True)


def main() -> None:
    app()
