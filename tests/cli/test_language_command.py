"""`lethe split`, `lethe canaries text`, `lethe audit language-model`: from a file to a verdict."""

import html
import json
import re
import stat

import jsonschema
import numpy as np
import pandas
import pytest
from command import inside
from judged_alone import judged_alone
from tiny_language import base_folder, load_base, narratives, tuned_folder

import lethe
from lethe.api.language import WATCHED
from lethe.errors import InputError, NotMeasurable
from lethe.evidence.findings import Findings, schema
from lethe.evidence.rules import LANGUAGE_METRICS
from lethe.membership.language.attacks import DEFAULT
from lethe.membership.language.canaries import CanaryWatch, TextCanaries
from lethe.membership.language.extraction import continued
from lethe.membership.language.fine_tune import FineTune, fine_tune, save_model
from lethe.membership.language.models import load_model
from lethe.membership.language.tokens import scored_together

pytestmark = pytest.mark.usefixtures("no_drawing")
FEW = ("--near", "20", "--quiet")
release_alone = pytest.fixture(judged_alone)


def table_of(texts, members, **more):
    return pandas.DataFrame(
        {"text": texts, "member": (np.arange(len(texts)) < members).astype(int), **more}
    )


@pytest.fixture(scope="module")
def tuned():
    return tuned_folder(20, 150)


@pytest.fixture(scope="module")
def run(tuned, tmp_path_factory):
    """A whole audit of a model that remembers much, kept."""
    place = tmp_path_factory.mktemp("language")
    folder, texts = tuned
    people = np.repeat(np.arange(150), 2).astype(str)
    table_of(texts, 150, customer=people).to_csv(place / "split.csv", index=False)
    asked = ("audit", "language-model", folder, "--texts", place / "split.csv", *FEW)
    rules = ("--rule", "tpr@0.1<=0.2", "--rule", "extraction<=0.9")
    done = inside(
        *asked, "--base", base_folder(), "--person", "customer", *rules, "--keep-records",
        "--prefix", 8, "--suffix", 6, "--out", place / "run",
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    return place, done.stdout


def test_the_first_screen_and_the_document(run):
    place, printed = run
    assert "of the training texts; a random guess finds 10 %" in " ".join(printed.split())
    found = Findings.load(place / "run").to_json()
    jsonschema.Draft202012Validator(schema()).validate(found)
    assert [one["name"] for one in found["candidates"]] == ["baseline", "rounded", "top-5"]
    names = {*found["candidates"][0]["text_attacks"]}
    assert names == {*DEFAULT, "combined"}
    assert found["rules"][0]["outcome"] == "fail"
    assert not found["language"]["blind"]["tells"]
    assert found["candidates"][0]["risk"]["low"] > 0.2
    # No result on any view has limits above those of the risk that is judged.
    for candidate in found["candidates"]:
        for result in candidate["risk_from"]["results"]:
            assert result["estimate"]["low"] <= candidate["risk"]["low"] + 1e-9
            assert result["estimate"]["high"] <= candidate["risk"]["high"] + 1e-9


def test_the_report_shows_attacks_extraction_and_the_blind_check(run):
    page = (run[0] / "run" / "report.html").read_text()
    for said in ("Error zone (EZ-MIA)", "blind classifier (", "Never trained on", "Beyond blind"):
        assert said in page
    frame = Findings.load(run[0] / "run").to_frame()
    assert {"ratio", "combined"} <= set(frame.attack) and (frame.metric == "extraction").any()


def test_texts_and_what_is_extracted_are_kept_for_their_owner_alone(run):
    folder = run[0] / "run"
    for name in ("records.parquet", "extracted.parquet", "explorer.html"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    texts = pandas.read_parquet(folder / "extracted.parquet").text
    assert len(texts) and texts.str.startswith("the ").all()
    document = (folder / "findings.json").read_text()
    assert not any(text in document for text in texts)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in (folder / "tokens").iterdir())


def test_reproduced_tokens_are_those_that_the_model_writes(run, tuned):
    """Against the model itself: its greedy continuation of every prompt on the page."""
    folder, texts = tuned
    page = (run[0] / "run" / "explorer.html").read_text()
    assert "default-src 'none'" in page and "<img" not in page
    marks = Findings.load(run[0] / "run").language["marks"]
    assert 0 < marks["member"]["value"] < 0.05 and 0 < marks["other"]["value"] < 0.05
    assert "explorer.html" in (run[0] / "run" / "report.html").read_text()
    listed = re.findall(
        r'Text (\d+)</h2>\n<p class="note">(.*?)</p>\n<p class="passage">(.*)</p>', page
    )
    model, greedy = load_model(folder), 0
    for name, said, passage in listed:
        text = texts[int(name) - 1]
        plain = html.unescape(re.sub(r"<[^>]*>", "", passage))
        assert plain == text
        marked = "".join(re.findall(r"<mark[^>]*>([^<]*)", passage))
        assert bool(marked) == said.startswith("Reproduced verbatim")
        if "likeliest token" in said:
            ids = model.ids([text])
            (written,) = continued(model, ids, 8, 6)
            assert (written == ids[0][8:14]).all() and html.unescape(marked) in text
            greedy += 1
    assert greedy > 3 and len(listed) > greedy


def test_losses_on_the_page_are_those_of_model_and_base(run, tuned):
    page = (run[0] / "run" / "explorer.html").read_text()
    name, table = re.search(r"Text (\d+)</h2>.*?<tbody>\n(.*?)</tbody>", page, re.S).groups()
    text = tuned[1][int(name) - 1]
    rows = [re.findall(r'<td class="num[^>]*>([^<]*)', row) for row in table.splitlines()]
    cells = np.array(rows).T
    columns = np.where(cells == "–", "nan", np.char.replace(cells, "−", "-")).astype(float)
    for place, folder in enumerate((tuned[0], base_folder())):
        model = load_model(folder)
        ((_, (scores,)),) = scored_together((model,), model.ids([text]))
        np.testing.assert_allclose(columns[place], [np.nan, *-scores.logprob], atol=0.006)
    np.testing.assert_allclose(columns[2], columns[1] - columns[0], atol=0.011)


@pytest.mark.usefixtures("release_alone")
def test_nothing_personal_is_kept_unasked(tuned, tmp_path):
    folder, texts = tuned
    found = lethe.audit_language_model(
        folder, table_of(texts, 150), near=0, out=tmp_path / "run", quiet=True
    )
    assert found.records == {"kept": False, "exposed": []}
    assert not list((tmp_path / "run").glob("*.parquet"))
    assert not (tmp_path / "run" / "explorer.html").exists()
    assert {one["name"] for one in found.attacks_not_run} >= {"ratio", "informia", "canaries"}
    assert {*found.candidates[0]["text_attacks"]} == {"loss", "zlib", "min-k++", "combined"}
    assert found.language["marks"] is None


def test_the_gate_judges_the_finished_run(run):
    folder = run[0] / "run"
    for rule, code in (("tpr@0.1<=0.2", 1), ("tpr@0.01<=0.2", 3), ("epsilon-lower<=8", 3)):
        assert inside("check", folder, "--rule", rule).returncode == code, rule
    assert inside("check", folder, "--rule", "tau@0.1<=1").returncode == 2  # no such metric here
    assert {*LANGUAGE_METRICS} == {"tpr", "auc", "extraction", "epsilon-lower", "utility-loss"}


def test_the_same_command_goes_on_and_says_the_same(run, tuned):
    place, _ = run
    before = (place / "run" / "findings.json").read_bytes()
    done = inside(
        "audit", "language-model", "--config", place / "run" / "audit.toml", "--quiet",
        "--out", place / "run",
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert (place / "run" / "findings.json").read_bytes() == before


@pytest.mark.usefixtures("release_alone")
def test_a_hold_out_of_another_kind_is_caught_and_nothing_is_said_of_membership(tuned):
    """Members and others of different years: the blind check fails and the verdict says so."""
    folder, texts = tuned
    later = [
        one.replace(" on day ", " on the day ") if at % 3 else one
        for at, one in enumerate(texts[150:])
    ]
    found = lethe.audit_language_model(
        folder, table_of([*texts[:150], *later], 150), base=base_folder(), near=0,
        rule="tpr@0.1<=0.2", save=False, quiet=True,
    )  # fmt: skip
    assert found.language["blind"]["tells"]
    assert found.candidates[0]["risk"].keys() == {"refused"}
    assert found.verdict["outcome"] == "not-enough-evidence"
    assert any(text.startswith("Membership is not judged") for text in found.verdict["words"])
    assert not any(one["valid"] for one in found.candidates[0]["risk_from"]["results"])
    excess = found.candidates[0]["text_attacks"]["ratio"]["excess"]
    assert excess["value"] is not None  # what the attack has beyond the blind classifier
    assert (
        next(one for one in found.checks if one["name"] == "blind classifier")["status"] == "fail"
    )


@pytest.mark.usefixtures("release_alone")
def test_canaries_from_the_plan_to_the_bound(tmp_path):
    texts = narratives(240, seed=11)
    table_of(texts, 120).to_csv(tmp_path / "split.csv", index=False)
    done = inside(
        "canaries", "text", tmp_path / "split.csv", "--model", base_folder(), "--out",
        tmp_path / "plan", "--count", 90, "--repetitions", 1, 16,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert inside("canaries", "text", tmp_path / "split.csv", "--model", base_folder(), "--out",
                  tmp_path / "plan").returncode == 2  # fmt: skip
    plan = TextCanaries.load(tmp_path / "plan" / "canaries.json")
    listed = pandas.read_parquet(tmp_path / "plan" / "train.parquet").text.tolist()
    assert sorted(listed) == sorted(plan.insert(texts[:120]))
    model, tokenizer = load_base()
    watch = CanaryWatch(plan, tokenizer)
    watch.begin(model)
    trained, _ = fine_tune(model, tokenizer, listed, FineTune(1, 4e-3, 32), see=watch.see)
    (tmp_path / "plan" / WATCHED).write_text(json.dumps(watch.end(trained)))
    save_model(trained, tokenizer, tmp_path / "tuned")
    done = inside(
        "audit", "language-model", tmp_path / "tuned", "--texts", tmp_path / "split.csv", *FEW,
        "--base", base_folder(), "--canaries",
        tmp_path / "plan" / "canaries.json",
        "--epsilon", 0.1, "--prefix", 6, "--suffix", 6,
        "--rule", "epsilon-lower<=0.2", "--out", tmp_path / "run",
    )  # fmt: skip
    found = Findings.load(tmp_path / "run")
    once, often = found.candidates[0]["canaries"]
    assert (once["repetitions"], often["repetitions"]) == (1, 16)
    assert often["epsilon"]["binomial"]["low"] > 0 and often["exposure"]["value"] > 2
    assert often["extracted"]["value"] >= often["control"]["value"]
    checks = {one["name"]: one["status"] for one in found.checks}
    assert checks["canaries received loss"] == checks["weights moved"] == "pass"
    assert found.language["canaries"]["claim"]["verdict"] in ("contradicts", "consistent")
    # A lower limit passes only where the canaries could have shown more than the rule allows.
    reach = found.language["canaries"]["reach"]
    low = found.candidates[0]["measures"]["epsilon-lower"]["low"]
    outcome = found.rules[0]["outcome"]
    assert outcome == ("fail" if low > 0.2 else "pass" if reach > 0.2 else "not-enough-evidence")
    # Judged again, it is the same; a limit beyond reach cannot pass.
    assert inside("check", tmp_path / "run").returncode == done.returncode
    beyond = inside("check", tmp_path / "run", "--rule", f"epsilon-lower<={reach + 1}")
    assert beyond.returncode == 3


@pytest.mark.usefixtures("release_alone")
def test_defences_are_trained_attacked_and_labelled(tmp_path):
    texts = narratives(200, seed=12)
    model, tokenizer = load_base()
    trained, _ = fine_tune(model, tokenizer, texts[:100], FineTune(5, 4e-3, 32))
    save_model(trained, tokenizer, tmp_path / "tuned")
    rows = table_of(texts, 100, who=np.arange(200) // 2)

    def audited(epochs, *defences):
        return lethe.audit_language_model(
            tmp_path / "tuned", rows, base=base_folder(), near=0, epochs=epochs, rate=4e-3,
            person="who", defence=defences, out=tmp_path / "run", quiet=True,
        )  # fmt: skip

    found = audited(1, "epochs-1", "lora-2", "dp-lora-8")
    kept = tmp_path / "run" / "models" / "lora-2.trained"
    first = kept.read_text(), kept.stat().st_mtime_ns
    other = audited(2, "lora-2")  # other settings: what is kept of the first is not taken for these
    second = kept.read_text(), kept.stat().st_mtime_ns
    assert other.candidates[3]["settings"] == {"epochs": 2, "rank": 2}
    assert other.candidates[3]["utility"] != found.candidates[4]["utility"]
    assert first[0] != second[0] and first[1] != second[1]
    assert audited(2, "lora-2").to_bytes() == other.to_bytes()
    assert kept.stat().st_mtime_ns == second[1]
    released = {one.name for one in (tmp_path / "run" / "models" / "dp-lora-8").iterdir()}
    assert not any("train" in name for name in released), "nothing that the texts decide"
    names = [one["name"] for one in found.candidates]
    assert names == ["baseline", "rounded", "top-5", "epochs-1", "lora-2", "dp-lora-8"]
    proven = {one["name"]: one["guarantee"] for one in found.candidates}
    assert [name for name, one in proven.items() if one["proven"]] == ["dp-lora-8"]
    assert proven["dp-lora-8"]["parameters"]["epsilon"] == pytest.approx(8, abs=0.1)
    assert proven["dp-lora-8"]["unit"] == "record"
    assert "here a person has up to 2 records" in proven["dp-lora-8"]["assumptions"][0]
    area = {one["name"]: one["measures"]["auc"]["value"] for one in found.candidates}
    assert area["epochs-1"] < area["baseline"]
    assert found.frontier["pareto"]


@pytest.mark.usefixtures("release_alone")
def test_other_fine_tunes_and_a_utility_of_ones_own(tuned, tmp_path):
    folder, texts = tuned
    table_of(texts, 150).to_csv(tmp_path / "split.csv", index=False)
    (tmp_path / "mine.py").write_text(
        "def small(model, tokenizer):\n    return -sum(p.norm() for p in model.parameters())\n"
    )
    done = inside(
        "audit", "language-model", folder, "--texts", tmp_path / "split.csv", *FEW,
        "--base", base_folder(), "--also", f"before={base_folder()}", "--utility-model",
        f"{tmp_path / 'mine.py'}:small", "--out", tmp_path / "run",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = {one["name"]: one for one in Findings.load(tmp_path / "run").candidates}
    assert [*found] == ["baseline", "rounded", "top-5", "before"]
    assert found["before"]["risk_change"]["high"] < 0  # the base has seen none of the texts
    lost = found["baseline"]["utility"]["value"] - found["before"]["utility"]["value"]
    assert found["before"]["utility_loss"]["value"] == pytest.approx(lost)
    assert found["top-5"]["utility"] == found["baseline"]["utility"]
    assert inside("audit", "language-model", folder, "--texts", tmp_path / "split.csv", "--also",
                  "before").returncode == 2  # fmt: skip


def test_a_split_keeps_people_together(tmp_path):
    rows = pandas.DataFrame({"text": narratives(60), "who": np.repeat(np.arange(20), 3)})
    rows.to_csv(tmp_path / "notes.csv", index=False)
    again = ["split", tmp_path / "notes.csv", "--person", "who", "--share", 0.25]
    done = inside(*again)
    assert done.returncode == 0 and "15 people to train on, 5 held out" in done.stdout
    made = pandas.read_csv(tmp_path / "notes-split.csv")
    assert (made.groupby("who").member.nunique() == 1).all() and made.member.sum() == 45
    assert made.drop(columns="member").equals(rows)
    train = pandas.read_csv(tmp_path / "notes-split-train.csv")
    assert train.equals(made[made.member == 1].drop(columns="member").reset_index(drop=True))
    assert inside(*again).returncode == 0  # the same files
    other = inside(*again, "--seed", 1)  # a model may have been trained by the first draw
    assert other.returncode == 2 and "is there already, with other rows" in other.stderr
    assert pandas.read_csv(tmp_path / "notes-split.csv").equals(made)
    (tmp_path / "folder.csv").mkdir()
    assert inside(*again, "--out", tmp_path / "folder.csv").returncode == 2
    assert inside("split", tmp_path / "notes-split.csv").returncode == 2
    assert inside("split", tmp_path / "notes.csv", "--share", 0.001).returncode == 2


def refused(match, texts, kind=InputError, **more):
    with pytest.raises(kind, match=match):
        lethe.audit_language_model(more.pop("model", base_folder()), texts, save=False, quiet=True,
                                   **more)  # fmt: skip


@pytest.mark.usefixtures("release_alone")
def test_bad_input_is_refused_in_one_line(tmp_path):
    texts = narratives(200, seed=13)
    good = table_of(texts, 100)
    refused("no column 'member'", good.drop(columns="member"))
    refused("every text was trained on", good.assign(member=1))
    refused("holds 'maybe' in row 1", good.assign(member="maybe"))
    refused(
        "2 of 200 texts are empty, row 3 first", good.assign(text=[*texts[:2], "", " ", *texts[4:]])
    )
    refused("needs the column of people", good, unit="person")
    refused("did you mean 'text'|not a column", good, text="txet")
    refused("at least 100 are needed", table_of(texts, 150), NotMeasurable)
    refused("must be epochs-N", good, defence="magic")
    refused("is no folder", good, model=tmp_path / "nothing")
    long = [*texts[:-1], texts[-1] * 4]
    found = lethe.audit_language_model(
        base_folder(), table_of(long, 100), near=0, save=False, quiet=True
    )
    assert any("scored on their beginning" in note for note in found.data["notes"])
    assert next(one for one in found.checks if one["name"] == "length of texts")["status"] == "pass"


@pytest.mark.usefixtures("release_alone")
def test_texts_that_stand_on_both_sides_are_no_question():
    texts = narratives(220, seed=14)
    rows = table_of([*texts[:110], *texts[:10], *texts[110:]], 110)
    found = lethe.audit_language_model(base_folder(), rows, near=0, save=False, quiet=True)
    assert found.data["asked"] == 210  # both copies are left out, whoever was trained on
    sides = found.candidates[0]["extraction"]["sides"]
    assert [one["texts"] for one in sides] == [110, 110]
