"""What every label that rests on noise must say: its seed, its lowest bits, the size of the data.

The subjects are found, not listed: candidates by their registry, mechanisms by their methods,
labels by the calls of `Guarantee` in the source. A new one that is in neither fails here.
"""

import ast
import inspect
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from reidentification_people import audit_embeddings, population, quick
from torch import nn

import lethe
from lethe.evidence.accounting import SAMPLINGS
from lethe.evidence.dp_statement import DpSgdRun, dp_statement, public_count
from lethe.evidence.guarantee import (
    FLOAT_NOISE,
    GIVEN_SEED,
    PROVEN,
    SECRET_SEED,
    SEED_KNOWN,
    Guarantee,
    from_seeded_noise,
)
from lethe.membership.candidates import NAMES, build_candidates
from lethe.membership.settings import AuditSettings
from lethe.mitigations.dp_sgd.candidate import IndividualPrivacy, PrivateTraining
from lethe.mitigations.private_training import PrivateSettings, train_privately
from lethe.mitigations.swag import Swag
from lethe.reidentification import mechanisms
from lethe.reidentification.released import LinearHead
from lethe.training.recipe import TorchRecipe

pytestmark = pytest.mark.usefixtures("no_page")
PACKAGE = Path(lethe.__file__).parent
POOL = np.arange(400) < 320
ROWS = np.random.default_rng(3).normal(size=(40, 5))
HEAD = LinearHead(np.random.default_rng(4).normal(size=5), 0.1)

NO_SEEDED_NOISE = {
    "evidence/guarantee.py": "the helpers themselves",
    "linkage/table/dp_rows.py": "OpenDP",
    "queries/mechanisms/choosing.py": "OpenDP",
    "queries/privacy.py": "OpenDP",
    "queries/ledger/chain.py": "reads a label back",
    "queries/ledger/document.py": "adds up labels of answers",
    "reidentification/radius.py": "a radius protects nobody, and says so",
    "membership/language/fine_tune.py": "reads a label back; `train_privately` makes it",
    "mitigations/pseudo_posterior.py": "asymptotic; `swag_ppm`, which draws, adds the seed",
}
"""Files with labels that no noise of a seed stands behind, and why."""

MECHANISMS = {
    "IsotropicNoise": [mechanisms.IsotropicNoise(1.0, diameter=2.0), mechanisms.IsotropicNoise(1)],
    "ClippedNoise": [mechanisms.ClippedNoise(1.0, 2.0)],
    "SubspaceNoise": [mechanisms.SubspaceNoise(HEAD, 1.0)],
    "AdaptiveNoise": [mechanisms.AdaptiveNoise(np.linspace(1, 2, 40))],
}


def _high(asked: list[int], bits: int) -> int:
    asked.append(bits)
    return 1 << (bits - 1)


def check_label(label: Guarantee, given: bool) -> None:
    assert SEED_KNOWN in label.voided_by
    assert FLOAT_NOISE in label.assumptions
    assert (GIVEN_SEED in label.assumptions, SECRET_SEED in label.assumptions) == (given, not given)


def built() -> list[object]:
    settings = AuditSettings(mitigations=("all",), epsilon=(8.0,), delta=1e-4, local_epsilon=4.0)
    recipe = TorchRecipe(make_module=lambda: nn.Linear(3, 2))
    made, skipped = build_candidates(settings, recipe, public=lambda: np.linspace(0, 1, 400))
    swapped = PrivateTraining(2.0, 1e-4, 3, 64, relation="replace-one")
    assert {one["name"] for one in skipped} <= set(NAMES)
    return [*made, swapped, IndividualPrivacy(swapped, np.full(400, 0.5, np.float32))]


@pytest.mark.parametrize("made", built(), ids=lambda made: f"{made.name}")
def test_every_candidate_of_an_audit_says_that_its_seed_is_known(made):
    """Its noise comes from the audit's seed, 0 by default and printed in the findings."""
    label = made.guarantee(POOL)
    private = any(made.name.startswith(name) for name in ("dp-sgd", "individual-dp"))
    assert label.proven == private
    noisy = made.settings.get("noise") or private or made.name.startswith(("weighted-dp", "swag"))
    assert (SEED_KNOWN in label.voided_by) == bool(noisy)
    if label.proven or made.name.startswith("weighted-dp"):
        check_label(label, given=True)
    if label.proven:
        assert (public_count("record") in label.assumptions) == (label.relation == "add/remove")


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("relation", ["add/remove", "replace-one"])
@pytest.mark.parametrize("unit", ["record", "user"])
@pytest.mark.parametrize("weights", [None, np.full(5000, 0.5)])
def test_every_statement_says_that_the_number_is_public(sampling, relation, unit, weights):
    run = DpSgdRun(1.0, 0.02, 50, 1e-5, 5000, 1.0, relation, sampling, unit=unit, weights=weights)
    label = dp_statement(run).guarantee
    check_label(label, given=False)
    public = [text for text in label.assumptions if "is public" in text]
    assert public == ([public_count(unit)] if relation == "add/remove" else [])


@pytest.mark.parametrize("seed", [None, 5])
def test_a_private_training_says_whether_its_seed_was_given(tmp_path, seed):
    data = torch.randn(64, 3, generator=torch.Generator().manual_seed(1)), torch.arange(64) % 2
    settings = PrivateSettings(delta=1e-3, noise_multiplier=1.0, batch_size=16, epochs=1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Linear(3, 2)
    made = train_privately(module, data, settings, seed=seed)
    check_label(made.statement.guarantee, given=seed is not None)
    made.save(tmp_path / "model.safetensors")
    header = (tmp_path / "model.safetensors").read_bytes()[8:].split(b"\x00")[0]
    assert b"seed" in header and f'"{seed}"'.encode() not in header  # never the seed itself


def test_the_mechanisms_for_vectors_are_all_here():
    found = {name for name, one in vars(mechanisms).items() if hasattr(one, "release")}
    assert found == {*MECHANISMS, "LogitOnly", "LabelOnly"}  # the last two have no noise


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_released_vector_has_noise_of_a_secret(name, monkeypatch):
    """No two releases are alike without a seed, and all 128 bits of the secret matter."""
    more = {"owner": np.arange(40)} if name == "AdaptiveNoise" else {}
    for mechanism in MECHANISMS[name]:
        assert inspect.signature(mechanism.release).parameters["seed"].default is None
        first, second = (mechanism.release(ROWS, **more) for _ in range(2))
        assert not np.array_equal(first, second)
        asked = []
        with monkeypatch.context() as patch:
            patch.setattr("secrets.randbits", partial(_high, asked))
            high = mechanism.release(ROWS, **more)
        assert asked == [128]
        np.testing.assert_array_equal(high, mechanism.release(ROWS, **more, seed=1 << 127))
        assert not np.array_equal(high, mechanism.release(ROWS, **more, seed=0))
        check_label(mechanism.guarantee(), given=False)


def test_every_proof_in_an_audit_of_vectors_is_of_its_seed():
    settings = quick(norm=3.0, diameter=6.0)
    findings = audit_embeddings(**population(), settings=settings)
    noisy = 0
    for entry in findings.guarantees:
        label = entry["guarantee"]
        assert label["kind"] in PROVEN or label["kind"] == "empirical-only"
        without = entry["candidate"] in ("baseline", "logit-only", "label-only")
        if without or entry["candidate"].startswith("subspace") and label["proven"]:
            continue
        noisy += 1
        assert SEED_KNOWN in label["voided_by"] and GIVEN_SEED in label["assumptions"], entry
        assert FLOAT_NOISE in label["assumptions"] and SECRET_SEED not in label["assumptions"]
    assert noisy >= 6
    assert "secret seed" in json.dumps(findings.to_json())


def test_noise_that_leaves_is_never_drawn_by_torch():
    """As above, in all files whose noise is handed out."""
    handed = ("mitigations/swag", "mitigations/private", "reidentification/mechanisms")
    files = [p for p in PACKAGE.rglob("*.py") if str(p.relative_to(PACKAGE)).startswith(handed)]
    assert len(files) >= 4
    for path in files:
        names = {
            n.attr for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Attribute)
        }
        assert not names & {"normal_", "randn", "manual_seed"}, path
        if "Generator" in names:
            assert "torch.Generator" not in path.read_text(), path


def test_a_draw_of_a_posterior_never_goes_through_a_generator_of_torch(monkeypatch):
    """It keeps 32 bits of a seed on the CPU, so that 2^32 tries take the noise off."""
    swag = Swag({"w": torch.zeros(20)}, rank=2)
    rng = np.random.default_rng(1)
    for _ in range(4):
        swag.collect({"w": torch.from_numpy(rng.normal(size=20).astype(np.float32))})

    def refuse(*args, **named):
        raise AssertionError("noise of torch's generator")

    monkeypatch.setattr(torch.Tensor, "normal_", refuse)
    drawn = [torch.zeros(20) for _ in range(3)]
    for into, seed in zip(drawn, (1, 1 + (1 << 40), 1 + (1 << 120)), strict=True):
        swag.draw_into({"w": into}, seed)
    # What differs is more than the two shared directions can make.
    apart = np.stack([(one - drawn[0]).numpy() for one in drawn[1:]])
    basis = np.linalg.qr(swag._deviations.T.numpy())[0]
    assert (np.linalg.norm(apart - apart @ basis @ basis.T, axis=1) > 0.1).all()


def test_the_label_of_a_seed_says_it_once_and_the_latest_word_counts():
    label = Guarantee("gdp", {"mu": 1.0}, "replace-one", "vector", ("a",), ("b",))
    twice = from_seeded_noise(from_seeded_noise(label), given=True)
    check_label(twice, given=True)
    assert twice.assumptions[0] == "a" and len(twice.assumptions) == 3
    assert twice.voided_by == ("b", SEED_KNOWN)
    check_label(from_seeded_noise(twice), given=False)


def test_no_label_in_the_source_forgets_its_noise():
    """A file that writes a `Guarantee` passes it on to `from_seeded_noise`, or is known not to."""
    writers = set()
    for path in PACKAGE.rglob("*.py"):
        if "Guarantee(" not in (text := path.read_text()):
            continue
        calls = [
            node.func.id
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        ]
        if "Guarantee" in calls and "from_seeded_noise" not in calls:
            writers.add(path.relative_to(PACKAGE).as_posix())
    assert writers <= set(NO_SEEDED_NOISE), writers - set(NO_SEEDED_NOISE)


def test_private_answers_have_no_seed_at_all():
    """Their noise comes from the operating system, by OpenDP: nobody can name it beforehand."""
    for folder in ("queries", "queries/mechanisms", "queries/aggregates"):
        for path in (PACKAGE / folder).glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef):
                    given = [*node.args.args, *node.args.kwonlyargs]
                    assert not {"seed", "rng"} & {one.arg for one in given}, (path, node.name)
                if isinstance(node, ast.Attribute):
                    assert node.attr not in ("default_rng", "Generator", "normal"), (
                        path,
                        node.lineno,
                    )
