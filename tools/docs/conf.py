"""Sphinx's configuration of the site. Pages are Markdown (MyST), the theme is furo."""

from raftka import __version__

project = "raftka"
author = "the raftka project"
version = release = __version__
extensions = ["myst_parser"]
root_doc = "index"
myst_heading_anchors = 4  # links to headings, as code hosts make them
highlight_language = "none"
templates_path = ["templates"]
html_theme = "furo"
html_title = "raftka"
html_copy_source = False  # each page lies beside its HTML as Markdown
html_show_copyright = False
html_use_index = False
