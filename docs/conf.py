"""Sphinx configuration. The build needs no network: no intersphinx, and mathematics is plain Unicode."""

import enum
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # the studies
sys.path.insert(0, str(Path(__file__).parent))
from build_tutorials import build_all

from leastpath._support.version import __version__

project = "leastpath"
author = "The leastpath authors"
copyright = f"2026, {author}"
release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["page.css"]
html_js_files = ["sortable.js"]
html_title = f"{project} {release}"

default_role = "code"  # docstrings write `name`, as Markdown does
autodoc_member_order = "bysource"  # the reference follows the order of __all__
autodoc_preserve_defaults = False  # methods have signatures that are made, which their source does not show
napoleon_use_ivar = True  # "Attributes:" sections would otherwise describe dataclass fields a second time
napoleon_custom_sections = [("Rarely needed", "params_style"), ("Settings of methods with a path", "params_style")]
python_maximum_signature_line_length = 100


def escape_docstring(app, what, name, obj, options, lines):
    """Let docstrings say |Δf| and (batch, *features), which reStructuredText would take for markup."""
    in_doctest = False
    for number, line in enumerate(lines):
        in_doctest = line.lstrip().startswith(">>>") or (in_doctest and bool(line.strip()))
        if not in_doctest:
            pieces = re.split(r"(`+[^`]*`+)", line)  # code stands at the odd places and stays as it is
            pieces[::2] = [re.sub(r"[*|]", r"\\\g<0>", text) for text in pieces[::2]]
            lines[number] = "".join(pieces)


def keep_enum_members(app, what, name, obj, skip, options):
    """A status needs no docstring: its value is the sentence."""
    return False if isinstance(obj, enum.Enum) else None


def setup(app):
    app.connect("builder-inited", lambda _: build_all())  # the tutorials run here
    app.connect("autodoc-skip-member", keep_enum_members)
    app.connect("autodoc-process-docstring", escape_docstring, priority=400)  # before napoleon, at 500
