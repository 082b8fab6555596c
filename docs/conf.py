"""How Sphinx builds the documentation: `make docs`."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "Octoadmin"
author = "The authors of Octoadmin"
extensions = ["myst_parser", "sphinx.ext.autodoc", "reference"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["pictures"]
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
add_module_names = False

html_theme = "furo"
html_title = "Octoadmin"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"top_of_page_buttons": []}
