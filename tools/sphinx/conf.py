"""How Sphinx builds the site from build/site-pages; see the Makefile."""

from pathlib import Path

ROOT = Path(__file__).parents[2]

project = "askless"
author = "The askless developers"
copyright = "The askless developers, Apache-2.0"
root_doc = "index"
smartquotes = False  # they would make one dash of the two of an option

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4  # as code hosts make them
myst_url_schemes = {"http": None, "https": None, "mailto": None, "site": "{{path}}"}  # site: a file beside the page
# Reports, numbers and notebooks lie beside the pages that link to them.
html_extra_path = [str(ROOT / "build" / "site-files")]

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
