"""The site of these pages, by Sphinx: ``make docs`` builds it into ``build/site``.

The notebooks among them run when they have changed; what they print is kept in ``build/doctrees``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from nbclient import NotebookClient
from pygments.lexer import RegexLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, Text

from archloom.tvm_backend.version import VERSION

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# a busy machine takes longer than the minute of the default until a notebook's kernel answers
NotebookClient.startup_timeout.default_value = 600

project = "archloom"
author = "the archloom authors"
copyright = author
version = release = VERSION

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton", "sphinx_design"]
exclude_patterns = ["*.py"]
highlight_language = "none"

myst_enable_extensions = ["attrs_block", "colon_fence"]
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_timeout = 900
nb_execution_in_temp = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_output_stderr = "remove"  # progress, whose lines overwrite each other in a notebook alone
nb_number_source_lines = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88

copybutton_prompt_text = r"\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "archloom"
html_favicon = "_static/icon.svg"
html_context = {"default_mode": "auto"}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "archloom"},
    "navbar_align": "left",
    "navigation_with_keys": False,
    "show_nav_level": 2,
    "show_toc_level": 2,
    "footer_start": [],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": []}


class Instructions(RegexLexer):
    """TAIDL, and instruction streams as text."""

    name = "TAIDL"
    tokens: ClassVar = {"root": [
        (r"#.*", Comment.Single),
        (r"\b(isa|param|in|def|assert|IF|ELSE|REPEAT|loop|let|repeat|for)\b", Keyword),
        (r"%\w+", Name.Variable),
        (r"\$\w+", Name.Builtin),
        (r"\.\w+", Keyword.Pseudo),
        (r"\b(?:0x[0-9a-f]+|\d+)\b", Number),
        (r"[A-Za-z_]\w*", Name),
        (r"->|<-|[-+*/%=<>&|!^~]", Operator),
        (r"\s+|.", Text),
    ]}


def finish(_: "Sphinx", page: nodes.document) -> None:
    """Drawings lead to themselves in full size, as images of stated widths do; cells that write TAIDL look like it."""
    for image in page.findall(nodes.image):
        image.setdefault("width", "100%")
    for cell in page.findall(nodes.literal_block):
        if re.match(r"%%writefile \S+\.taidl\n", cell.astext()):
            cell["language"] = "taidl"


def setup(app: "Sphinx") -> None:
    app.connect("doctree-read", finish)
    app.add_lexer("taidl", Instructions)
    app.add_lexer("asm", Instructions)
