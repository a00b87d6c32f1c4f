"""docs/tutorial_isa.md is as short as it says."""

from tests.support.pages import DOCS, files

PAGE = DOCS / "tutorial_isa.md"


def test_the_user_writes_fewer_than_sixty_lines() -> None:
    assert set(files(PAGE)) == {"matvec.taidl", "layer.py"}
    lines = [line.strip() for text in files(PAGE).values() for line in text.splitlines() if line.strip()]
    assert len(lines) < 60
    own = [line for line in lines if not line.startswith("#")]
    assert f"in {len(own)} lines" in PAGE.read_text(encoding="utf-8").replace("\n", " ")
