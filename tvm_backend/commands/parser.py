"""Words of a command line to arguments: faults in one line, with the nearest word that there is."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from archloom.oracle.errors import suggest

BAD_INPUT = 2
NUMBERS: Mapping[Any, str] = {int: "an integer", float: "a number"}


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with the arguments; its sub-commands are of the same class."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {message} ({self.prog} --help shows what it takes)\n")

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            command: Parser = getattr(found, "parser", self)
            word = unknown[0].partition("=")[0]
            flags = [flag for action in command._actions for flag in action.option_strings if flag.startswith("--")]
            command.error(f"unknown argument {word!r}{suggest(word, flags) if word.startswith('-') else ''}")
        return found

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """As argparse does it, which makes an empty list of ``--option=--``."""
        if action.option_strings and arg_strings == ["--"]:
            raise argparse.ArgumentError(action, "expected a value, found '--'")
        return super()._get_values(action, arg_strings)  # type: ignore[misc]

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """As argparse does it, which says of words that are no numbers what Python calls them."""
        try:
            return super()._get_value(action, arg_string)  # type: ignore[misc]
        except argparse.ArgumentError:
            if action.type not in NUMBERS:
                raise
            raise argparse.ArgumentError(action, f"expected {NUMBERS[action.type]}, found {arg_string!r}") from None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """As argparse does it, which lists all choices and says of none that it is near."""
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, f"unknown {value!r}{suggest(str(value), list(action.choices))}")
