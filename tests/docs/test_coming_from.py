"""The page for users of other tools: Lethe's blocks run, the others at least parse."""

from __future__ import annotations

import ast
import re
from typing import Any

import pytest
from doc_pages import page

BLOCKS = re.findall(r"```python\n(.*?)```", page("coming-from.md"), re.DOTALL)
pytestmark = pytest.mark.usefixtures("no_drawing")

FEW = 'models=4, attack="loss-threshold", save=False, quiet=True'


def test_each_tool_has_its_block_beside_ours() -> None:
    heads = [re.match(r"# ([\w-]+)", block) for block in BLOCKS[1:]]
    names = [head[1] for head in heads if head]
    tools = ["SACRO-ML", "LeakPro", "Opacus", "Anonymeter", "SDMetrics"]
    assert [name for name in names if name != "Lethe"] == tools
    for block in BLOCKS:
        ast.parse(block)


@pytest.mark.parametrize("tool", ["SACRO-ML", "LeakPro", "Opacus", "Anonymeter"])
def test_the_same_task_in_lethe_runs(tool: str, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    at = next(n for n, block in enumerate(BLOCKS) if block.startswith(f"# {tool}"))
    names: dict[str, Any] = {}
    exec(BLOCKS[0].replace("RandomForestClassifier(", "RandomForestClassifier(9, "), names)
    if tool == "Anonymeter":
        names |= {name: names[name].iloc[:, :5] for name in ("X", "synthetic")}
    if tool == "Opacus":  # whose module is LeakPro's
        exec(BLOCKS[at - 1].split("\n\n\nfindings")[0], names)
    block = BLOCKS[at + 1].replace("RandomForestClassifier(", "RandomForestClassifier(9, ")
    exec(block.replace("models=16", FEW).replace("epochs=30", "epochs=2"), names)
    if tool == "Opacus":
        assert str(names["private"].statement).startswith("approx-dp: epsilon = 3.9")
    else:
        assert names["findings"].candidates
