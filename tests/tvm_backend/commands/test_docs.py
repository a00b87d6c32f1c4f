"""The documentation names what is there: every command and flag, and every page that is linked."""

import argparse
import re
import shlex
from pathlib import Path

import pytest

from archloom.tvm_backend import cli
from tests.support.pages import DOCS, PAGES


def _commands() -> dict[str, argparse.ArgumentParser]:
    parser = cli.build_parser()
    actions = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return dict(actions[0].choices)


def test_every_command_and_flag_is_described() -> None:
    text = (DOCS / "cli.md").read_text()
    for name, parser in _commands().items():
        assert f"## `archloom {name}" in text, name
        flags = {f for action in parser._actions for f in action.option_strings if f.startswith("--")}
        missing = [flag for flag in flags - {"--help"} if f"`{flag}" not in text]
        assert not missing, f"{name}: {missing}"


def test_no_flag_is_described_that_is_not_there() -> None:
    text = (DOCS / "cli.md").read_text()
    known = {f for parser in _commands().values() for action in parser._actions for f in action.option_strings}
    assert set(re.findall(r"`(--[a-z0-9-]+)", text)) <= known


@pytest.mark.first_case
@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_are_ones_that_archloom_takes(page: Path) -> None:
    parser = cli.build_parser()
    for block in re.findall(r"```(?:sh)?\n(.*?)```", page.read_text(), re.DOTALL):
        for command in re.findall(r"(?:^ *|do )archloom (.*?)(?:$|; done| [|>] )", block, re.MULTILINE):
            parser.parse_args(shlex.split(command, comments=True))


def test_every_page_is_in_the_navigation() -> None:
    trees = re.findall(r"```{toctree}\n(.*?)```", "".join(page.read_text() for page in PAGES), re.DOTALL)
    found = [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]
    assert sorted([*found, "index"]) == sorted(page.relative_to(DOCS).with_suffix("").as_posix() for page in PAGES[1:])


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", prose):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"
