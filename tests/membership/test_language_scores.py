"""Token log-probabilities: equal to transformers' own, kept, resumed, and handed in."""

import json
import shutil

import numpy as np
import pytest
import torch
import transformers
from tiny_language import base_folder, gpt2, load_base, narratives, scored_chunks, tuned_folder

from lethe.errors import InputError
from lethe.evidence.guarantee import Guarantee
from lethe.membership.language import tokens as module
from lethe.membership.language.fine_tune import (
    GUARANTEE,
    FineTune,
    fine_tune,
    read_guarantee,
    save_model,
)
from lethe.membership.language.models import check_together, load_model
from lethe.membership.language.tokens import TOP_K, read_scores, scored_together

TEXTS = [*narratives(20, seed=3), "short", "the worker", narratives(1)[0] * 5]


def plain_loop(model, text):
    """Log-probabilities of one text alone, by transformers' logits, without padding."""
    ids = torch.tensor([model.tokenizer(text)["input_ids"][: model.context]])
    with torch.no_grad():
        logits = model.module(ids).logits[0, :-1].log_softmax(-1)
    return logits, ids[0, 1:]


def test_they_are_those_of_transformers_whatever_the_batch(monkeypatch):
    model = load_model(tuned_folder(4, 60)[0])
    for limit in (1 << 12, 1 << 25):  # a text a batch, and all in one
        monkeypatch.setitem(module._LOGITS, "cpu", limit)
        found = dict(scored_chunks(model, model.ids(TEXTS)))
        assert {*found} == {at for at, one in enumerate(model.ids(TEXTS)) if len(one) > 1}
        for at, scores in found.items():
            logits, truth = plain_loop(model, TEXTS[at])
            own = logits.gather(1, truth[:, None])[:, 0]
            share = logits.exp()
            mean = (share * logits).sum(1)
            spread = ((share * logits**2).sum(1) - mean**2).sqrt()
            top = logits.topk(TOP_K).values.logsumexp(1)
            rank = (logits > own[:, None]).sum(1)
            np.testing.assert_allclose(scores.logprob, own, atol=1e-4)
            np.testing.assert_allclose(scores.mean, mean, atol=1e-3)
            np.testing.assert_allclose(scores.deviation, spread, atol=1e-3)
            np.testing.assert_allclose(scores.top_mass, top, atol=1e-4)
            assert (scores.rank == rank.numpy()).mean() > 0.97  # near ties may turn


def test_a_pair_is_two_models_and_the_divergence_between_them(tmp_path):
    model, base = load_model(tuned_folder(4, 60)[0]), load_model(base_folder())
    ids = model.ids(TEXTS)
    alone = dict(scored_chunks(model, ids))
    for folder in (tmp_path, tmp_path):  # computed, and read back
        for at, (mine, theirs) in scored_together((model, base), ids, folder):
            np.testing.assert_allclose(mine.logprob, alone[at].logprob, atol=1e-4)
            (p, truth), (q, _) = (plain_loop(one, TEXTS[at]) for one in (model, base))
            np.testing.assert_allclose(theirs.logprob, q.gather(1, truth[:, None])[:, 0], atol=1e-4)
            apart = torch.nn.functional.kl_div(p, q, reduction="none", log_target=True).sum(1)
            np.testing.assert_allclose(mine.divergence, apart, atol=1e-3)
            assert np.isnan(theirs.divergence).all() and np.isnan(alone[at].divergence).all()


def test_an_adapter_is_read_on_its_base(tmp_path):
    base, tokenizer = load_base()
    adapted, _ = fine_tune(base, tokenizer, narratives(40), FineTune(2, 1e-2, 16, lora=4))
    save_model(adapted, tokenizer, tmp_path / "adapter")
    model = load_model(tmp_path / "adapter", base_folder())
    given = torch.from_numpy(model.ids(TEXTS[:1])[0].astype(np.int64))[None]
    (_, scores), *_ = scored_chunks(model, model.ids(TEXTS[:1]))
    with torch.no_grad():
        own = adapted(given).logits[0, :-1].log_softmax(-1).gather(1, given[0, 1:, None])[:, 0]
    np.testing.assert_allclose(scores.logprob, own, atol=1e-4)
    plain = load_model(base_folder())
    (_, before), *_ = scored_chunks(plain, plain.ids(TEXTS[:1]))
    assert np.abs(scores.logprob - before.logprob).max() > 0.05
    # In half the digits it says nearly the same.
    half = load_model(tmp_path / "adapter", base_folder(), precision="bfloat16")
    (_, rough), *_ = scored_chunks(half, half.ids(TEXTS[:1]))
    assert np.abs(rough.logprob - scores.logprob).mean() < 0.1


def test_chunks_are_kept_for_their_owner_and_read_back(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", 200)
    model = load_model(base_folder())
    ids = model.ids(TEXTS)
    first = dict(scored_chunks(model, ids, tmp_path))
    files = sorted(tmp_path.iterdir())
    assert len(files) > 3 and all(path.stat().st_mode & 0o077 == 0 for path in files)
    files[0].write_bytes(b"damaged")
    files[1].unlink()
    asked = []
    monkeypatch.setattr(
        module, "_computed", lambda m, own, real=module._computed: asked.append(1) or real(m, own)
    )
    again = dict(scored_chunks(model, ids, tmp_path))
    assert len(asked) == 2  # the damaged and the missing one alone
    for at in first:
        np.testing.assert_allclose(first[at].logprob, again[at].logprob, atol=1e-6)


def test_scores_of_another_engine_are_read_by_text_and_position():
    columns = {
        "text": np.array(["b", "a", "b"], object),
        "position": np.array([2, 1, 1]),
        "logprob": np.array([-2.0, -1.0, -3.0]),
    }
    a, b = read_scores(columns, ["a", "b"])
    assert a.logprob.tolist() == [-1.0] and b.logprob.tolist() == [-3.0, -2.0]
    assert np.isnan(b.rank).all()
    for change, said in (
        ({"logprob": np.array([0.5, -1.0, -1.0])}, "above 0 or NaN"),
        ({"position": np.array([1, 1, 1])}, "stands twice"),
        ({"text": np.array(["a", "a", "c"], object), "position": np.arange(3)}, "'b' first"),
    ):
        with pytest.raises(InputError, match=said):
            read_scores({**columns, **change}, ["a", "b"])
    with pytest.raises(InputError, match="lacks the column 'position'"):
        read_scores({"text": columns["text"]}, ["a"])


def test_what_cannot_be_audited_is_refused_in_one_line(tmp_path):
    base = base_folder()

    def copied(name, *leave):
        shutil.copytree(base, tmp_path / name)
        for one in leave:
            (tmp_path / name / one).unlink()
        return tmp_path / name

    with pytest.raises(InputError, match="is no folder"):
        load_model(tmp_path / "nowhere")
    with pytest.raises(InputError, match="has no tokenizer"):
        load_model(copied("bare", "tokenizer.json", "tokenizer_config.json"))
    with pytest.raises(InputError, match="cannot be loaded"):
        load_model(copied("empty", "model.safetensors"))
    alone = tmp_path / "adapter"
    alone.mkdir()
    (alone / "adapter_config.json").write_text('{"base_model_name_or_path": "somebody/model"}')
    with pytest.raises(InputError, match="name it with --base"):
        load_model(alone)
    encoder = tmp_path / "encoder"
    transformers.BertModel(
        transformers.BertConfig(
            vocab_size=50,
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=8,
        )
    ).save_pretrained(str(encoder))
    with pytest.raises(InputError, match="no causal language model"):
        load_model(encoder)
    model, tokenizer = load_base()
    small = tmp_path / "small"
    save_model(gpt2(list(range(40))), tokenizer, small)
    with pytest.raises(InputError, match="do not belong together"):
        load_model(small)
    other = copied("other")
    told = json.loads((other / "tokenizer.json").read_text())
    vocabulary = told["model"]["vocab"]
    (one, two), *_ = zip(list(vocabulary)[-1:], list(vocabulary)[-2:-1], strict=True)
    vocabulary[one], vocabulary[two] = vocabulary[two], vocabulary[one]
    (other / "tokenizer.json").write_text(json.dumps(told))
    with pytest.raises(InputError, match="is not that of the base"):
        check_together(load_model(base), load_model(other))


def test_a_guarantee_is_of_the_weights_that_it_was_saved_with(tmp_path):
    """A folder that was written again without one kept the proof of the model before."""
    _, tokenizer = load_base()
    proof = Guarantee("approx-dp", {"epsilon": 1.0, "delta": 1e-5}, "add/remove", "record")
    save_model(gpt2(list(range(40))), tokenizer, tmp_path, proof)
    assert read_guarantee(tmp_path).parameters["epsilon"] == 1.0
    kept = (tmp_path / GUARANTEE).read_bytes()
    other = gpt2(list(range(40)))
    other.transformer.wte.weight.data += 1
    save_model(other, tokenizer, tmp_path)
    assert read_guarantee(tmp_path) is None
    (tmp_path / GUARANTEE).write_bytes(kept)
    with pytest.raises(InputError, match="other weights"):
        read_guarantee(tmp_path)
    for path in tmp_path.glob("*.safetensors"):
        path.unlink()
    with pytest.raises(InputError, match="no .safetensors"):
        read_guarantee(tmp_path)
