"""The sheet that a person gets: what was found about them, in plain words, and nobody else's data.

One HTML file without scripts, styles from elsewhere or requests; every text is escaped.
"""

from __future__ import annotations

import html
import math

from lethe.evidence.estimate import Estimate, Refusal
from lethe.membership.forgotten import DISTINGUISHABLE, INCONCLUSIVE, NOT, Forgotten, Verdict

_STYLE = (
    "body{font:16px/1.5 sans-serif;max-width:42rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}th,td{text-align:left;padding:.3rem .8rem .3rem 0;"
    "border-bottom:1px solid #ccc;vertical-align:top;font-weight:normal}"
    ".verdict{border:2px solid;padding:.5rem 1rem}"
)
_PLAIN = {
    "loss-threshold": "looking at how sure the model is of the right answer",
    "lira-online": "comparing the model with others trained with and without the records",
    "lira-offline": "comparing the model with others trained without the records",
}


def meaning(one: Verdict, margin: float) -> str:
    """The verdict in one or two sentences.

    Args:
        margin: AUC that counts as not distinguishable.
    """
    if one.verdict == DISTINGUISHABLE:
        assert isinstance(one.auc, Estimate)
        small = one.auc.high is not None and one.auc.high <= margin
        more = f" The difference is within the margin of {margin:.0%} though." if small else ""
        return (
            "A model trained with these records can be told from one trained without them: "
            f"they leave a trace.{more}"
        )
    if one.verdict == NOT:
        return (
            "None of the attacks run tells a model trained with these records from one trained "
            f"without them in more than {margin:.0%} of comparisons (pure guessing: 50 %)."
        )
    if isinstance(one.auc, Refusal):
        return f"Nothing can be said: {one.auc.reason}."
    if one.if_as_seen:
        return (
            "The measured value lies too near the limits to decide. If it is the true one, about "
            f"{one.models_needed} models would tell."
        )
    return (
        f"The {one.models_with + one.models_without} models at hand are too few to decide. With "
        f"{one.models_needed} models an answer could be expected."
    )


def evidence_words(one: Verdict) -> str:
    """The strongest attack's evidence, as a game of two models that anybody can picture."""
    if isinstance(one.auc, Refusal) or one.auc.value is None or one.attack is None:
        return "No attack could be measured."
    low, high = one.auc.low, one.auc.high
    assert low is not None and high is not None
    way = _PLAIN.get(one.attack, "its scores")
    return (
        f"Somebody is shown two models, one trained with the records and one without, and has to "
        f"say which is which by {way} (attack {one.attack}). They are right in "
        f"{one.auc.value:.0%} of cases (limits {low:.0%} to {high:.0%}); a coin is right in 50 %."
    )


def comparison_words(one: Verdict, task: str | None) -> str:
    """The gold standard: what models trained without the person say, beside the others."""
    if one.signal_with is None or one.signal_without is None:
        return "Models of one kind are missing, so there is no comparison."
    inside, outside = one.signal_with, one.signal_without
    if task == "regression":
        words = f"an error of {-inside:.3g} and {-outside:.3g} standard deviations"
    else:
        shown = [1 / (1 + math.exp(-min(max(v, -700.0), 700.0))) for v in (inside, outside)]
        words = (
            f"a probability of {shown[0]:.1%} and {shown[1]:.1%} for the right answer (log-odds "
            f"{inside:.2f} and {outside:.2f})"
        )
    return (
        f"On average the {one.models_with} models trained with the records and the "
        f"{one.models_without} trained without them show {words}. The models without are what "
        "complete forgetting looks like."
    )


def sheet(name: str, one: Verdict, found: Forgotten, candidate: str, task: str | None) -> str:
    """The HTML page for one person.

    Args:
        name: as the person is called in the request.
        found: for the settings; nothing of other persons is read.
        task: of the model, for words.
    """
    rows = [
        ("Request of", name),
        ("Records in the audit", str(one.records)),
        ("Training judged", candidate),
        ("Attacks run", ", ".join(found.attacks)),
        ("Margin fixed beforehand", f"right in at most {found.margin:.0%} of comparisons"),
        (
            "Errors",
            f"all answers given together hold with {found.confidence:.0%} confidence; answers "
            f"allowed for: {len(found.persons)}",
        ),
        ("p of 'no trace'", _p(one.p_distinguishable)),
        ("p of 'a trace beyond the margin'", _p(one.p_not)),
    ]
    if one.power is not None:
        rows.append(("Chance that these models decide", f"{one.power:.0%}"))
    table = "\n".join(
        f'<tr><th scope="row">{html.escape(head)}</th><td>{html.escape(text)}</td></tr>'
        for head, text in rows
    )
    told = {DISTINGUISHABLE: "Distinguishable", NOT: "Not distinguishable"}
    title = told.get(one.verdict, INCONCLUSIVE.capitalize())
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Has this person been forgotten?</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>Has this person been forgotten?</h1>
<section class="verdict">
<h2>{html.escape(title)}</h2>
<p>{html.escape(meaning(one, found.margin))}</p>
</section>
<h2>What was found</h2>
<p>{html.escape(evidence_words(one))}</p>
<p>{html.escape(comparison_words(one, task))}</p>
<table>
<tbody>
{table}
</tbody>
</table>
<h2>What this does not say</h2>
<p>The answer is about this way of training, judged by retraining it many times with and without
the records. It holds for the attacks named above; a stronger attack may see more. It is a
measurement, not a proof, and says nothing about copies of the data elsewhere.</p>
</main>
</body>
</html>
"""


def _p(value: float | None) -> str:
    if value is None:
        return "not measurable"
    return "below 0.0001" if value < 1e-4 else f"{value:.4f}"
