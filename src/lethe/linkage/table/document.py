"""What the findings say of a table with quasi-identifiers."""

from __future__ import annotations

from typing import Any

import numpy as np

from lethe.assess.run import attack, check
from lethe.evidence.estimate import Refusal
from lethe.linkage.document import (
    K_IS_NOT_ENOUGH,
    Account,
    of_1000,
    utility_in_words,
    utility_left,
)
from lethe.linkage.settings import TableSettings
from lethe.linkage.table.study import TableStudy, fingerprint_of, warnings_of

Json = dict[str, Any]
_SIZES = (1, 2, 3, 5, 10, 20, 50, 100)
_LISTED = 10
_SYNTHETIC = (
    "A synthetic row is nobody's. Its risk counts as if every synthetic row that agrees with a "
    "person in all quasi-identifiers, in the cells that were counted, were a copy of such a row: "
    "chance agreement is in it, so it is an upper limit of linkage, on the same axis as the "
    "others. What is proven is in the guarantee, not in this number."
)


def account_of_table(study: TableStudy, settings: TableSettings) -> Account:
    """All that is to be said."""
    table = study.table
    secret = table.sensitive
    return Account(
        name=table.name,
        summary=(
            f"{table.rows:,} rows; quasi-identifiers {', '.join(table.quasi)}"
            + ("." if secret is None else f"; sensitive column {secret}.")
        ),
        threat_model={
            "goal": "singling out and linkage: find a person's row"
            + ("" if secret is None else f"; inference: learn {secret}"),
            "knowledge": f"exact values of {', '.join(table.quasi)} of a person in the table",
            "access": "the whole table",
            "budget": "every row, every subset of columns that was searched",
            "unit": "row, one a person",
        },
        data={
            "records": table.rows,
            "columns": len(table.columns),
            "quasi": {one.name: len(one.steps[0]) for one in study.hierarchies},
            "fingerprint": fingerprint_of(study),
        },
        attacks=_attacks(study, settings),
        not_run=_not_run(study),
        utility=utility_in_words(settings, "two-way counts that are still right"),
        risk="marketer risk: share of rows that a linkage of everybody gets right",
        candidates=study.candidates,
        skipped=study.skipped,
        checks=[check(f"column {name}", "warn", detail) for name, detail in warnings_of(study)]
        or [check("columns", "pass", "no quasi-identifier is constant, unique or incomplete")],
        words=plain_words(study),
        limits=[
            K_IS_NOT_ENOUGH,
            "Which columns an adversary can know is a judgement; a column that was not named is "
            "taken as unknown to everybody.",
            "Persons with several rows are not joined: audit one row a person.",
            "Shares are counted in the rows at hand, so they have no sampling error; what they "
            "would be for other rows is another question.",
            *([_SYNTHETIC] if study.synthetic else []),
        ],
        section=_section(study, settings),
        people=_people(study) if settings.keep_records else (),
        settings={
            "quasi": list(table.quasi),
            "sensitive": secret,
            "ks": list(settings.ks),
            "suppress": settings.suppress,
            "most": settings.most,
            "distance": settings.distance,
            "population": settings.population,
            **_private(settings),
        },
    )


def _private(settings: TableSettings) -> Json:
    if not settings.epsilon:
        return {}
    return {
        "epsilon": list(settings.epsilon),
        "delta": settings.delta,
        "schema": None if settings.schema is None else settings.schema.to_json()["columns"],
        "bins": settings.bins,
    }


def plain_words(study: TableStudy) -> list[str]:
    """What was found, for somebody who reads nothing else."""
    found, rows = study.anonymity, study.table.rows
    words = [
        f"Of 1,000 rows, {of_1000(found.unique.value)} are alone with their values of "
        f"{', '.join(study.table.quasi)}; who links everybody gets "
        f"{of_1000(found.marketer.value)} of 1,000 right (a blind guess: {1000 / rows:.2g})."
    ]
    size = max(study.uniqueness.by_size)
    best = study.uniqueness.by_size[min(size, 3)][0]
    names = ", ".join(study.table.quasi[at] for at in best.columns)
    words.append(
        f"The {len(best.columns)} column(s) {names} alone single out "
        f"{of_1000(best.unique.value)} of 1,000 rows."
    )
    if study.disclosure is not None:
        told = study.disclosure
        words.append(
            f"The quasi-identifiers give {study.table.sensitive} away for certain in "
            f"{of_1000(told.homogeneous.value)} of 1,000 rows; the best guess is right in "
            f"{of_1000(told.guessed[0].value)}, without the table's classes in "
            f"{of_1000(told.blind.value)}."
        )
    made = [candidate for candidate in study.candidates if candidate.name.startswith("k-")]
    if made:
        candidate = made[-1]
        text = (
            f"Made {candidate.details['k']}-anonymous, the table keeps "
            f"{utility_left(candidate, study.candidates[0])} and a linkage of everybody "
            f"gets {of_1000(getattr(candidate.risk, 'value', 0.0))} of 1,000 right"
        )
        if study.disclosure is not None and candidate.details["certain"]["value"]:
            text += (
                f"; yet {study.table.sensitive} is still certain in "
                f"{of_1000(candidate.details['certain']['value'])} of 1,000 rows"
            )
        words.append(text + ". That is no proof of privacy.")
    words += [
        f"The synthetic rows {candidate.name} keep {utility_left(candidate, study.candidates[0])}; "
        "who takes those that agree with a person for copies gets at most "
        f"{of_1000(getattr(candidate.risk, 'value', 0.0))} of 1,000 right. They are proven to be "
        f"({candidate.settings['epsilon']:g}, {candidate.settings['delta']:g})-differentially "
        "private, under the assumptions that are listed."
        for candidate in study.candidates
        if candidate.name in study.synthetic
    ]
    return words


def _attacks(study: TableStudy, settings: TableSettings) -> list[Json]:
    known = "exact quasi-identifiers of a person in the table"
    rows = [
        attack(
            "classes",
            "Look a person up by the joint quasi-identifiers",
            "Sweeney 2002; El Emam 2013 (prosecutor, marketer)",
            known,
            {"columns": len(study.table.quasi)},
        ),
        attack(
            "subsets",
            "Rows that few columns single out, all subsets",
            "Sweeney 2000",
            "exact values of any few of the quasi-identifiers",
            {"most": settings.most},
        ),
    ]
    if study.disclosure is not None:
        rows.append(
            attack(
                "homogeneity",
                "Read the sensitive value off the class; rule values out first",
                "Machanavajjhala et al. 2007, section 2",
                f"{known}; values that the person does not have",
                {"ruled_out": list(settings.ruled_out)},
            )
        )
    if study.journalist is not None:
        rows.append(
            attack(
                "journalist",
                "Look the table's rows up in a population table",
                "El Emam 2013",
                "quasi-identifiers of the whole population",
                {},
            )
        )
    return rows


def _not_run(study: TableStudy) -> list[Json]:
    rows = [
        {
            "name": "linkage with errors",
            "why": "quasi-identifiers are taken as known exactly; errors make it harder",
        }
    ]
    if study.journalist is None:
        rows.append({"name": "journalist risk", "why": "no population table was given"})
    if study.disclosure is None:
        rows.append({"name": "homogeneity", "why": "no sensitive column was named"})
    return rows


def _section(study: TableStudy, settings: TableSettings) -> Json:
    found, names = study.anonymity, study.table.quasi
    size = found.of_class.size
    edges = [*_SIZES, np.inf]
    counts = [
        int(size[(size >= a) & (size < b)].sum()) for a, b in zip(edges, edges[1:], strict=False)
    ]
    section: Json = {
        "kind": "quasi",
        "rows": study.table.rows,
        "quasi": list(names),
        "sensitive": study.table.sensitive,
        "anonymity": {
            "k": found.k,
            "classes": found.classes,
            "below": {str(k): one.to_json() for k, one in found.below.items()},
            "prosecutor": found.prosecutor,
            "marketer": found.marketer.to_json(),
            "unique": found.unique.to_json(),
            "sizes": {"from": list(_SIZES), "rows": counts},
        },
        "uniqueness": {
            "singled_out": {
                str(m): one.to_json() for m, one in study.uniqueness.singled_out.items()
            },
            "subsets": {
                str(m): [
                    {
                        "columns": [names[at] for at in one.columns],
                        "unique": one.unique.to_json(),
                    }
                    for one in listed[:_LISTED]
                ]
                for m, listed in study.uniqueness.by_size.items()
            },
        },
    }
    if study.diversity is not None and study.disclosure is not None:
        varied, told = study.diversity, study.disclosure
        section["diversity"] = {
            "distinct_l": varied.distinct_l,
            "entropy_l": varied.entropy_l,
            "t": varied.t,
            "alpha": varied.alpha,
            "distance": varied.distance,
        }
        section["disclosure"] = {
            "certain": {str(j): one.to_json() for j, one in told.certain.items()},
            "guessed": {str(j): one.to_json() for j, one in told.guessed.items()},
            "blind": told.blind.to_json(),
        }
    if study.journalist is not None:
        section["journalist"] = {
            "highest": study.journalist.highest,
            "mean": study.journalist.mean.to_json(),
            "unique": study.journalist.unique.to_json(),
        }
    if isinstance(study.population, Refusal):
        section["population"] = study.population.to_json()
    elif study.population is not None:
        section["population"] = {
            "model": study.population.model,
            "people": study.population.population,
            "of_uniques": study.population.of_uniques.to_json(),
            "of_rows": study.population.of_rows.to_json(),
        }
    return section


def _people(study: TableStudy) -> list[Json]:
    """Rows that the fewest columns single out, first."""
    needed, size = study.uniqueness.needed, study.anonymity.of_class.of_size
    order = np.lexsort((size, np.where(needed == 0, np.iinfo(np.int64).max, needed)))
    return [
        {
            "rank": rank,
            "id": f"row {row + 1}",
            "columns_needed": int(needed[row]) or None,
            "class_size": int(size[row]),
        }
        for rank, row in enumerate(order.tolist(), start=1)
    ]
