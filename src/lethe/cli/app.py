"""The parser of the command line, and of `lethe audit`; `commands.py` lists the other commands."""

from __future__ import annotations

from cyclopts import App

from lethe.cli.commands import COMMANDS, installed_version, usage

# `lethe audit`: measure a release; what each kind of audit takes is imported when it is called.

audit = App(name="audit", help="Measure what a release reveals about the people behind it.")
EXAMPLES = {
    "model": (
        "lethe audit model digits",
        "lethe audit model people.csv --label income --group person",
        "lethe audit model people.csv --label income --recipe mine.py:make --models 16",
    ),
    "scores": (
        "lethe audit scores scores.npz",
        "lethe audit scores scores.csv --signal loss",
        "lethe audit scores scores.npz --attack rmia-online lira-online --gate 'auc<=0.6'",
    ),
    "text": (
        "lethe audit text injuries.parquet --text narrative --label code",
        "lethe audit text injuries.csv --text narrative --label code --min-class-size 50",
        "lethe audit text injuries.csv --text narrative --label code --model encoder/",
    ),
    "language-model": (
        "lethe audit language-model tuned/ --texts split.csv --text note --base base/",
        "lethe audit language-model adapter/ --texts split.csv --base base/ \\\n"
        "      --person customer --unit person --canaries plan/canaries.json --epsilon 8",
        "lethe audit language-model --scores tokens.parquet --texts split.csv",
    ),
    "embeddings": (
        "lethe audit embeddings vectors.npz --head head.npz",
        "lethe audit embeddings vectors.npy --table people.csv --user person",
        "lethe audit embeddings visits.parquet --period day --from 2024-03-01 --known 3",
    ),
    "table": (
        "lethe audit table people.csv --quasi age,sex,zip --sensitive diagnosis",
        "lethe audit table people.csv --quasi age,sex,zip --population register.csv",
        "lethe audit table people.csv --quasi age,sex --epsilon 1 --schema people.toml",
    ),
    "records": (
        "lethe audit records films.csv --person user --item film --time when",
        "lethe audit records films.csv --person user --item film --value stars",
        "lethe audit records new.csv --person user --item film --aux old.csv --pairs",
    ),
    "synthetic": (
        "lethe audit synthetic made.csv --original used.csv --control unused.csv \\\n"
        "      --quasi age,sex --sensitive diagnosis",
        "lethe audit synthetic made.csv --original used.csv --control unused.csv \\\n"
        "      --quasi age,sex --attacks 500",
        "lethe audit synthetic made.csv --original used.csv --control unused.csv \\\n"
        "      --quasi age,sex --predict diagnosis",
    ),
    "mechanism": (
        "lethe audit mechanism mine.py:count --epsilon 1 --bounds 0,100",
        "lethe audit mechanism mine.py:noisy --mu 1 --bounds 0,1 --runs 50000",
        "lethe audit mechanism mine.py:noisy --epsilon 1 --neighbours mine.py:pairs",
    ),
}
for _where, _name, _does in (
    ("audit_model:model", "model", "A trained model: who was in its training?"),
    ("audit_model:scores", "scores", "Scores that you computed, of models trained elsewhere."),
    ("audit_model:text", "text", "An autocoder: a model that gives codes to free text."),
    (
        "audit_language:language_model",
        "language-model",
        "A fine-tuned language model: what of its texts comes out?",
    ),
    ("audit_embeddings:embeddings", "embeddings", "Vectors of people: whose is this one?"),
    ("audit_rows:table", "table", "Rows, one a person: who stands out?"),
    ("audit_rows:records", "records", "Facts about people: how few name a person?"),
    ("audit_rows:synthetic", "synthetic", "Synthetic rows: do they reveal their originals?"),
    ("audit_mechanism:mechanism", "mechanism", "Noise of your own: does it keep its epsilon?"),
):
    audit.command(
        f"lethe.cli.{_where}",
        name=_name,
        help=_does,
        usage=usage(f"audit {_name}", EXAMPLES[_name]),
    )


app = App(
    name="lethe",
    help="Measure what a release tells about the people behind it, make it forget, prove how far.",
    version_flags=["--version"],
    suppress_keyboard_interrupt=False,  # `run` stops the workers first
)


app.version = installed_version
app.register_install_completion_command()
for _group in COMMANDS.values():
    for _command in _group:
        _top = {"usage": usage(_command.name, _command.examples)} if _command.examples else {}
        app.command(_command.where, name=_command.name, **_top)
