"""How Sphinx builds the site from build/site-pages; see the Makefile."""

import re
from pathlib import Path

from docutils.utils.math.latex2mathml import tex2mathml

ROOT = Path(__file__).parents[2]

project = "askless"
author = "The askless developers"
copyright = "The askless developers, Apache-2.0"
root_doc = "index"
smartquotes = False  # they would make one dash of the two of an option

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["dollarmath"]  # of the docstrings
myst_heading_anchors = 4  # as code hosts make them
myst_url_schemes = {"http": None, "https": None, "mailto": None, "site": "{{path}}"}  # site: a file beside the page
# Reports, numbers and notebooks lie beside the pages that link to them.
html_extra_path = [str(ROOT / "build" / "site-files")]

# The Python reference: one argument to a line where all do not fit on one.
maximum_signature_line_length = 80
python_maximum_signature_line_length = 80
python_display_short_literal_types = True
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "askless"
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = False  # it fetches pages, which file:// does not allow; the search itself works
html_static_path = ["static"]
html_css_files = ["wide.css"]
html_theme_options = {"navigation_with_keys": False}
# Heading levels that skip one, and words that a highlighter does not know, hurt nobody; a broken link fails.
suppress_warnings = ["misc.highlighting_failure", "myst.header"]


def show(writer, node):
    """Formulas as MathML, which browsers show by themselves: Sphinx would load a script from elsewhere."""
    from docutils.nodes import SkipNode

    block = node.tagname == "math_block"
    math = tex2mathml(re.sub(r"\\[Bb]igg?\b", "", node.astext()), as_block=block)
    writer.body.append(f"<div class='formula'>{math}</div>" if block else math)
    raise SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (show, None), (show, None))


html_math_renderer = "mathml"
