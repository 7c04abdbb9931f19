"""Sphinx: the pages of this folder, and an API reference made from the docstrings."""

import json
import tempfile
from importlib.metadata import version as installed
from pathlib import Path

from lethe.evidence.findings import Findings, schema
from lethe.report import render, render_several

project = "Lethe"
author = "The Lethe authors"
version = release = installed("lethe-privacy")
html_title = "Lethe"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.autosummary",
]
exclude_patterns = ["_build", "gallery"]
default_role = "code"  # what docstrings have in single backticks
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
suppress_warnings = ["myst.xref_missing"]  # links to files outside this folder, such as benchmarks

autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_attr_annotations = False
napoleon_custom_sections = ["Guarantee", "Assumes"]

html_theme = "furo"
html_static_path = []
_EXTRA = Path(tempfile.mkdtemp())
(_EXTRA / "findings.schema.json").write_text(json.dumps(schema(), indent=1))
html_extra_path = [str(_EXTRA), "live-report.html"]
html_show_copyright = False
html_show_sphinx = False


RELEASES = ("digits", "vectors", "films", "patients")


def gallery_pages():
    """Name and HTML of every report of the gallery, rendered from its findings."""
    folder = Path(__file__).parent / "gallery"
    runs = {}
    for path in sorted(folder.glob("*/findings.json")):
        manifest = json.loads(path.with_name("manifest.json").read_text(encoding="utf-8"))
        runs[path.parent.name] = (Findings.load(path), manifest)
    yield from ((name, render(*run)) for name, run in runs.items())
    yield "four-releases", render_several([runs[name] for name in RELEASES], "The four releases")


def publish_gallery(app, error):
    """Whole reports, under the address that the page links to."""
    if error is None and app.builder.format == "html":
        target = Path(app.outdir) / "gallery"
        target.mkdir(exist_ok=True)
        for name, page in gallery_pages():
            (target / f"{name}.html").write_text(page, encoding="utf-8")


def setup(app):
    """Sphinx asks for this."""
    app.connect("build-finished", publish_gallery)
