"""The site of docs/: Sphinx reads this file. The navigation is the map docs/README.md."""

import re
from pathlib import Path

from sphinx.util import logging

root = Path(__file__).parents[2]
repository = "https://github.com/agentarbor/arbor"
log = logging.getLogger(__name__)

project = "Arbor"
html_title = "Arbor"
html_theme = "furo"
html_theme_options = {"source_repository": repository, "source_branch": "main", "source_directory": "docs/"}
html_copy_source = False
html_show_copyright = False
extensions = ["myst_parser"]
root_doc = "README"
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]  # blocks of JSON and YAML that leave something out


def sections(text):
    """Adds a table of contents to each section of the map, which names the pages of the section in their order."""
    seen = set()

    def add(section):
        pages = [p for p in dict.fromkeys(re.findall(r"\]\(([\w-]+)\.md", section[0])) if p not in seen]
        seen.update(pages)
        title = re.match(r"## (.*)", section[0])[1]
        return f"{section[0].rstrip()}\n\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n" + "\n".join(pages) + "\n```\n\n"

    return re.sub(r"^## .*?(?=^## |\Z)", add, text, flags=re.M | re.S)


def read(app, page, source):
    """Leads links to files outside docs to the repository, and warns of those that are not there."""

    def outside(link):
        path = (root / "docs" / link[1].partition("#")[0]).resolve()
        if not path.exists():
            log.warning("there is no file %s", link[1], location=page)
        return f"]({repository}/{'tree' if path.is_dir() else 'blob'}/main/{path.relative_to(root)})"

    source[0] = re.sub(r"\]\((\.\./[^)\s]*)\)", outside, source[0])
    if page == root_doc:
        source[0] = sections(source[0])


def setup(app):
    app.connect("source-read", read)
