"""Run the cells of a notebook without Jupyter; as a script, store what they show.

python tests/examples/notebook.py [NAME...]     # the full settings: ten minutes for all
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def read(name: str) -> dict[str, Any]:
    """A notebook as JSON."""
    document: dict[str, Any] = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
    return document


def code_cells(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Cells that are run."""
    return [cell for cell in document["cells"] if cell["cell_type"] == "code"]


def run(cells: list[dict[str, Any]]) -> None:
    """Run the cells in order and replace their outputs.

    A function of a cell belongs to `__main__`, as in Jupyter, so worker processes get it by value.
    """
    space = {"__name__": "__main__"}
    for number, cell in enumerate(cells, 1):
        body = ast.parse("".join(cell["source"]), f"cell {number}").body
        last = ast.Expression(body.pop().value) if isinstance(body[-1], ast.Expr) else None
        printed, shown = io.StringIO(), None
        with contextlib.redirect_stdout(printed):
            exec(compile(ast.Module(body, []), f"cell {number}", "exec"), space)
            if last is not None:
                shown = eval(compile(last, f"cell {number}", "eval"), space)
        cell["execution_count"], cell["outputs"] = number, []
        if printed.getvalue():
            text = printed.getvalue().splitlines(keepends=True)
            cell["outputs"].append({"name": "stdout", "output_type": "stream", "text": text})
        if shown is not None:
            result = {"execution_count": number, "metadata": {}, "output_type": "execute_result"}
            cell["outputs"].append({"data": bundle(shown), **result})


def bundle(shown: Any) -> dict[str, Any]:
    """The last value of a cell in every form that Jupyter would ask it for."""
    forms: dict[str, Any] = {"text/plain": repr(shown).splitlines(keepends=True)}
    if hasattr(shown, "_repr_html_"):
        forms["text/html"] = (shown._repr_html_() or "").splitlines(keepends=True)
    if hasattr(shown, "savefig"):
        picture = io.BytesIO()
        shown.savefig(picture, format="png", dpi=72)
        forms = {"image/png": base64.b64encode(picture.getvalue()).decode()}
    return forms


def text_of(cells: list[dict[str, Any]]) -> str:
    """Everything that cells show, pictures left out."""
    lines: list[str] = []
    for output in (output for cell in cells for output in cell["outputs"]):
        for form, text in output.get("data", {"text/plain": output.get("text")}).items():
            lines += [] if form == "image/png" else [*text, "\n"]
    return "".join(lines)


def store(name: str) -> None:
    """Run a notebook in an empty folder and write its outputs into it."""
    document, here = read(name), Path.cwd()
    with TemporaryDirectory() as place:
        os.chdir(place)
        run(code_cells(document))
        os.chdir(here)
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    (NOTEBOOKS / f"{name}.ipynb").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb")):
        store(chosen)
        print(chosen)
