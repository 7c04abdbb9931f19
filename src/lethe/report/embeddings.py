"""What the page shows of released representations: one block a model, and models side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lethe.report.embedding_figures import embedding_figures, worst
from lethe.report.numbers import facts, fixed, grouped, measured, percent, rate, score

Json = Mapping[str, Any]


def embeddings_view(document: Json) -> dict[str, Any] | None:
    """What the template prints.

    Args:
        document: `Findings.to_json()`.

    Returns:
        None where something else was audited.
    """
    found = document.get("representations")
    if found is None:
        return None
    models = found["models"]
    return {
        "rule": found["rule"],
        "models": [_model(document, model, at) for at, model in enumerate(models)],
        "side_by_side": [_side(model, found["metric"]) for model in models],
        "several": len(models) > 1,
        "people": _people(document["records"]),
    }


def _model(document: Json, model: Json, at: int) -> dict[str, Any]:
    radii, utility = model["radii"], model["utility"]
    return {
        "name": model["name"],
        "id": f"model{at}",
        "attacks": [_attack(one) for one in model["attacks"]],
        "common": sorted({int(size) for one in model["attacks"] for size in one["common"]}),
        "controls": _controls(model),
        "exposure": _exposure(model),
        "levels": [_level(one) for one in model["levels"]],
        "attackers": _attackers(model["levels"]),
        "utility": None if "refused" in utility else [_task(one) for one in utility["levels"]],
        "utility_missing": utility.get("refused", ""),
        "measure": utility.get("measure", ""),
        "smoothed": rate(utility.get("smoothed")),
        "closed_form": utility.get("closed_form", False),
        "surface": [_cell(one) for one in model["surface"]],
        "radii": None if "refused" in radii else _radii(radii),
        "radii_missing": radii.get("refused", ""),
        "geometry": [(metric, _apart(apart)) for metric, apart in model["geometry"].items()],
        "rms": f"{model['scale']['rms']:.4g}",
        "point": model["point"],
        "detail": _detail(document, model),
        "figures": embedding_figures(model, f"m{at}-"),
    }


def _attack(one: Json) -> dict[str, Any]:
    return {
        "name": one["name"],
        "top": [rate(one["top"][k]) for k in ("1", "5", "10", "20")],
        "lift": measured(one["lift"]["1"], 1),
        "mrr": rate(one["mrr"]),
        "median": measured(one["median_rank"], 0),
        "percentile": rate(one["percentile"]),
        "bits": score(one["bits"]),
        "ties": percent(float(f"{one['tie_share']:.3g}")),
        "common": {int(size): rate(share) for size, share in one["common"].items()},
    }


def _controls(model: Json) -> list[tuple[str, str]]:
    found = dict(model["controls"])
    open_set = found.pop("open_set")
    lifts = found.pop("permuted_lift")
    if "value" in lifts:  # of documents with one control for one attack
        lifts = {"the attack": lifts}
    rows = [
        (f"Lift of {name} under permuted names (must be 1)", str(score(lift)))
        for name, lift in lifts.items()
    ]
    if "refused" in open_set:
        rows.append(("People who are not in the gallery", str(rate(open_set))))
    else:
        aim = percent(open_set["aimed_at"])
        rows += [
            (f"Strangers named, threshold set for {aim}", str(rate(open_set["false_match"]))),
            ("Known people named rightly at that threshold", str(rate(open_set["identified"]))),
            ("Known people taken for another person", str(rate(open_set["misnamed"]))),
        ]
    return rows + facts(found)


def _exposure(model: Json) -> dict[str, Any]:
    shape, bits = model["exposure"]["named"], model["exposure"]["bits"]
    edges = shape["edges"]
    rows = [
        (f"{percent(round(low, 6))} to {percent(round(high, 6))}", grouped(count))
        for low, high, count in zip(edges, edges[1:], shape["counts"], strict=False)
        if count
    ]
    return {
        "rows": rows,
        "bits": f"{bits['median']:.2f} ({bits['low']:.2f} to {bits['high']:.2f})",
        "needed": f"{model['exposure']['bits_that_name']:.2f}",
    }


def _level(one: Json) -> dict[str, Any]:
    optimal = one["optimal"]
    return {
        "sigma": f"{one['sigma']:.4g}",
        "relative": f"{one['relative']:.3g}",
        "top": [rate(one["top"][k]) for k in ("1", "5", "10")],
        "lift": measured(one["lift"], 2),
        "worst": measured(worst(one), 2),
        "strongest": _attacker(one.get("strongest")),
        "tier": one["tier"],
        "bound": "–" if one["bound"] is None else fixed(one["bound"], 4),
        "optimal": "–" if optimal is None else fixed(optimal["high"], 4),
        "asked": one["asked"],
    }


def _attacker(found: Json | None) -> str:
    if found is None:
        return ""
    view = "" if found["view"] == "release" else f", on {found['view']}"
    return f"{found['attack']}{view}"


def _attackers(levels: Sequence[Json]) -> dict[str, Any]:
    """Lift of every attacker at every level that was asked for."""
    asked = [level for level in levels if level["asked"]]
    found = [{_attacker(one): one for one in level.get("attacks", [])} for level in asked]
    names = {name: one["knows"] for level in found for name, one in level.items()}
    rows = []
    for name, knows in names.items():
        cells = [measured(level[name]["estimate"], 2) if name in level else None for level in found]
        rows.append({"name": name, "knows": knows, "cells": cells})
    return {"sigmas": [f"{level['sigma']:.4g}" for level in asked], "rows": rows}


def _task(one: Json) -> dict[str, Any]:
    smoothed = one.get("smoothed") or {}
    return {
        "sigma": f"{one['sigma']:.4g}",
        "value": rate(one["value"]),
        "accuracy": rate(one["accuracy"]),
        "f1": _number(one.get("f1")),
        "brier": _number(smoothed.get("brier")),
        "log_loss": _number(smoothed.get("log_loss")),
        "ece": _number(smoothed.get("ece")),
    }


def _cell(one: Json) -> dict[str, Any]:
    return {
        "sigma": f"{one['sigma']:g}",
        "draws": grouped(one["draws"]),
        "effective": f"{one['effective']:.3g}",
        "lift": measured(one["lift"], 2),
        "utility": rate(one["utility"]),
    }


def _radii(radii: Json) -> dict[str, Any]:
    named = (
        [] if radii["closed_form"] is None else [("closed form, every sigma", radii["closed_form"])]
    )
    named += [(f"draws at sigma {one['sigma']:g}", one) for one in radii["sampled"]]
    rows = [
        {
            "name": name,
            "mean": _number(one["mean"], 3),
            "median": _number(one["median"], 3),
            "most": _number(one["most"], 3),
            "cap": _number(one["cap"], 3),
            "abstained": percent(float(f"{one['abstained']:.3g}")),
        }
        for name, one in named
    ]
    return {"rows": rows, "points": grouped(radii["points"]), "linear": bool(radii["closed_form"])}


def _detail(document: Json, model: Json) -> list[tuple[str, str]]:
    """The recommended candidate of a model in one place."""
    wanted = ("noise-recommended", f"{model['name']}: noise-recommended")
    found = next((one for one in document["candidates"] if one["name"] in wanted), None)
    if found is None:
        return []
    limit = "–" if found["bound"] is None else fixed(found["bound"], 4)
    rows = [
        ("Noise", facts(found["settings"])),
        ("Strongest attacker", _attacker(found.get("risk_from"))),
        ("Its Top-1", str(rate(found["top_1"]))),
        ("Lift over chance", f"{score(found['risk'])}, {found['tier']}"),
        ("No attacker exceeds, one draw", limit),
        (f"{model['utility'].get('measure', 'Utility')} of one draw", str(rate(found["utility"]))),
        ("Lost against the vectors as they are", str(rate(found["utility_loss"]))),
    ]
    return [
        (label, text if isinstance(text, str) else ", ".join(f"{k} {v}" for k, v in text))
        for label, text in rows
    ]


def _side(model: Json, metric: str) -> dict[str, Any]:
    attack = next(one for one in model["attacks"] if one["name"] == metric)
    utility = model["utility"]
    clean = None if "refused" in utility else utility["levels"][0]["value"]
    return {
        "name": model["name"],
        "dimensions": grouped(model["dimensions"]),
        "strongest": _attacker(model["levels"][0].get("strongest")),
        "lift": measured(worst(model["levels"][0]), 1),
        "bits": score(attack["bits"]),
        "utility": rate(clean),
        "nearest": _apart(model["geometry"].get("l2") or {}),
        "point": model["point"]["words"],
    }


def _apart(apart: Json) -> str:
    if not apart:
        return "–"
    return f"{apart['median']:.3g} ({apart['low']:.3g} to {apart['high']:.3g})"


def _number(value: float | None, decimals: int = 4) -> str:
    return "–" if value is None else fixed(value, decimals)


def _people(records: Json) -> Sequence[tuple[str, list[str]]]:
    """The most exposed people; personal data, only where it was asked for."""
    if not records["kept"]:
        return []
    return [
        (
            str(row["id"]),
            [
                grouped(row["probes"]),
                fixed(row["named"], 4),
                grouped(row["median_rank"]),
                fixed(row["bits"], 2),
            ],
        )
        for row in records["exposed"]
    ]


def words_of(document: Json) -> list[tuple[str, list[str]]]:
    """The box in plain words, by model, and what is proven."""
    models = document["representations"]["models"]
    blocks = [(model["name"], list(model["words"])) for model in models]
    proven = sum(one["guarantee"]["proven"] for one in document["guarantees"])
    said = (
        f"{proven} of {len(document['guarantees'])} statements on candidates are proofs; all other "
        "numbers say what these attacks found, and a stronger attack may find more."
    )
    return [*blocks, ("Proof", [said])]
