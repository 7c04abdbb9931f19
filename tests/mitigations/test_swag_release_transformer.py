"""The six steps on a stock transformer built from its configuration, with tied weights."""

from pathlib import Path

import pytest
import torch
from released_draws import read_release

from lethe.mitigations.swag_release.records import ReleaseSettings
from lethe.mitigations.swag_release.release import release_draw


@pytest.mark.slow
def test_a_stock_bert_classifier(tmp_path: Path) -> None:
    """Named inputs, dropout, LayerNorm; encoder frozen but for its last layer and the head."""
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
        num_labels=3,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = BertForSequenceClassification(config)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("layer.1." in name or "classifier" in name)
    stream = torch.Generator().manual_seed(1)
    codes = torch.randint(0, 50, (60, 8), generator=stream)
    inputs = {"input_ids": codes, "attention_mask": torch.ones_like(codes)}
    settings = ReleaseSettings(
        4.35, "replace-one", floor=0.01, fit_epochs=2, refit_epochs=2, swag_epochs=3, draws=3
    )
    done = release_draw(model, inputs, codes[:, 0] % 3, settings, tmp_path / "a.safetensors")
    tensors, label = read_release(done.file)
    live = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert set(tensors) == live
    assert label["guarantee"]["kind"] == "asymptotic"
    assert 0 < done.mechanism.estimate.epsilon <= 2 * done.mechanism.estimate.bounded
    model.load_state_dict(tensors, strict=False)
    model.train(False)
    with torch.no_grad():
        assert torch.equal(model(**inputs).logits, done.module(**inputs).logits)
