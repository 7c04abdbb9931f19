"""SWAG: moments, shared low-rank noise, draws, density, files, and every refusal."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from lethe.errors import InputError, RunFailed
from lethe.mitigations.swag import Swag

Walk = list[dict[str, Tensor]]


def path_of(
    seed: int, steps: int, at: float = 0.0, by: float = 1.0, dtype: torch.dtype = torch.float64
) -> Walk:
    """A correlated walk of two layers, as SGD would leave it."""
    rng = np.random.default_rng([seed, steps])
    mix = rng.normal(size=(5, 5))
    walk = at + by * rng.normal(size=(steps, 5)) @ mix
    return [
        {
            "a.w": torch.tensor(row[:4].reshape(2, 2), dtype=dtype),
            "b": torch.tensor(row[4], dtype=dtype),
        }
        for row in walk
    ]


def fitted(walk: Walk, **settings_: Any) -> Swag:
    swag = Swag(walk[0], **settings_)
    for parameters in walk:
        swag.collect(parameters)
    return swag


def flat(named: dict[str, Tensor], batch: bool = False) -> np.ndarray:
    shape = (lambda value: (len(value), -1)) if batch else (lambda value: (-1,))
    return torch.cat([v.double().reshape(shape(v)) for v in named.values()], -1).numpy()


def naive(path: Walk, rank: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, variance and stored deviations, by their definitions, in float64."""
    rows = np.stack([flat(parameters) for parameters in path])
    deviations = [row - rows[: k + 1].mean(0) for k, row in enumerate(rows)]
    return rows.mean(0), rows.var(0), np.stack(deviations[-rank:])


def covariance_of(path: Walk, rank: int, scale: float) -> np.ndarray:
    _, variance, deviations = naive(path, rank)
    low = deviations.T @ deviations / (len(deviations) - 1) if len(deviations) > 1 else 0.0
    return np.asarray(scale * (np.diag(np.maximum(variance, 1e-30)) + low))


def test_three_collections_by_hand() -> None:
    """1, 2, 6: means 1, 1.5, 3; variance 14/3; deviations 0, 0.5, 3, of which two are kept."""
    swag = fitted([{"w": torch.tensor([x])} for x in (1.0, 2.0, 6.0)], rank=2)
    assert (swag.count, swag.stored, swag.size) == (3, 2, 1)
    assert swag.mean()["w"].item() == pytest.approx(3)
    assert swag.variance()["w"].item() == pytest.approx(14 / 3)
    assert sorted(swag.deviations()["w"].flatten().tolist()) == pytest.approx([0.5, 3])


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(2, 12), st.integers(1, 6))
def test_state_against_the_definitions(seed: int, steps: int, rank: int) -> None:
    path = path_of(seed, steps)
    swag = fitted(path, rank=rank)
    mean, variance, deviations = naive(path, rank)
    np.testing.assert_allclose(flat(swag.mean()), mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(flat(swag.variance()), variance, rtol=1e-9, atol=1e-9)
    stored = flat(swag.deviations(), batch=True)
    ordered = np.roll(stored, -(steps % rank) if steps > rank else 0, axis=0)
    np.testing.assert_allclose(ordered, deviations, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "rank, scale, count", [(4, 0.5, 20_000), (4, 2.0, 4000), (20, 0.5, 4000), (1, 0.5, 4000)]
)
def test_covariance_of_draws(rank: int, scale: float, count: int) -> None:
    """Acceptance check 8: scale (diag + D D^T / (K - 1)), K as stored, within 5 sd of the count."""
    path = path_of(3, 9)
    swag = fitted(path, rank=rank, scale=scale)
    draws = flat(swag.draw(11, count), batch=True)
    wanted = covariance_of(path, rank, scale)
    spread = np.sqrt(np.outer(wanted.diagonal(), wanted.diagonal()) + wanted**2)
    assert (np.abs(np.cov(draws.T) - wanted) <= 5 * spread / math.sqrt(len(draws))).all()
    limit = 5 * np.sqrt(wanted.diagonal() / len(draws))
    assert (np.abs(draws.mean(0) - naive(path, rank)[0]) <= limit).all()


def test_covariance_between_layers_is_kept() -> None:
    """Two layers that move together: within 5 % of the exact value; sd at 10,000 is 1.6 %."""
    rng = np.random.default_rng(5)
    path = [{"one": torch.tensor([x]), "two": torch.tensor([x])} for x in rng.normal(size=30)]
    draws = flat(fitted(path, rank=20).draw(0, 10_000), batch=True)
    wanted = covariance_of(path, 20, 0.5)[0, 1]
    assert wanted > 0.3
    assert np.cov(draws.T)[0, 1] == pytest.approx(wanted, rel=0.05)


@pytest.mark.parametrize("by", [1e-3, 1e-4, 1e-5])
def test_small_moves_of_large_weights_in_float32(by: float) -> None:
    """sd error <= 0.1 % for every one of 20,000 weights of 1; E[x^2] - E[x]^2 is lost."""
    rng = np.random.default_rng([7, int(1 / by)])
    rows = (1 + by * rng.normal(size=(20, 20_000))).astype(np.float32)
    swag = fitted([{"w": torch.from_numpy(row)} for row in rows], rank=5)
    true = rows.astype(np.float64).std(0)
    got = np.sqrt(swag.variance()["w"].double().numpy())
    assert np.abs(got / true - 1).max() <= 1e-3
    released = np.sqrt(np.maximum((rows**2).mean(0) - rows.mean(0) ** 2, 1e-30))
    assert np.abs(released / true - 1).max() > (0.05 if by == 1e-3 else 0.9)


def test_draws_of_small_moves_have_the_right_spread() -> None:
    """Mean over 20,000 weights of the squared draw / variance; sd sqrt(2 / 20,000) = 1 %."""
    rng = np.random.default_rng(8)
    rows = (1 + 1e-5 * rng.normal(size=(20, 20_000))).astype(np.float32)
    swag = fitted([{"w": torch.from_numpy(row)} for row in rows], rank=1, scale=1.0)
    drawn = swag.draw(0)["w"][0].double().numpy() - rows.astype(np.float64).mean(0)
    assert (drawn**2 / rows.astype(np.float64).var(0)).mean() == pytest.approx(1, abs=0.05)


def test_the_divisor_is_what_is_stored() -> None:
    """5 collections in a ring of 20 give the same draws as in a ring of 5."""
    path = path_of(1, 5)
    wide, narrow = fitted(path, rank=20).draw(4, 3), fitted(path, rank=5).draw(4, 3)
    assert all(torch.equal(wide[name], narrow[name]) for name in wide)


def test_draws_follow_the_seed_and_not_their_number() -> None:
    swag = fitted(path_of(2, 6), rank=4)
    few, many, other = swag.draw(9, 2), swag.draw(9, 5), swag.draw(10, 2)
    assert torch.allclose(few["a.w"], many["a.w"][:2], rtol=1e-12)
    assert not torch.equal(few["a.w"][0], few["a.w"][1])
    assert not torch.equal(few["a.w"], other["a.w"])
    doubled = swag.draw(9, 2, scale=2.0)
    shift = (doubled["b"] - swag.mean()["b"]) / (few["b"] - swag.mean()["b"])
    assert shift.tolist() == pytest.approx([2, 2])  # sqrt(2 / 0.5)


@pytest.mark.parametrize("seed", [3, 1 << 100])
def test_draws_written_into_a_model(seed: int) -> None:
    """The same numbers as `draw`, in memory that is the model's, dense or not; ties stay."""
    rng = np.random.default_rng(6)
    walk = [
        {
            "w": torch.from_numpy(rng.normal(size=(300, 700)).astype(np.float32)),
            "b": torch.from_numpy(rng.normal(size=()).astype(np.float32)),
        }
        for _ in range(4)
    ]
    swag = fitted(walk, rank=3)
    into = {"w": torch.zeros(700, 300).T, "b": torch.zeros(())}
    for number in (0, 2):
        swag.draw_into(into, seed, number, scale=1.5)
        wanted = swag.draw(seed, first=number, scale=1.5)
        assert all(torch.equal(into[name], wanted[name][0]) for name in into)
    many = swag.draw(seed, 3, scale=1.5)
    assert torch.allclose(many["w"][2], into["w"], atol=1e-5)
    other = swag.draw(seed + (1 << 90), scale=1.5)["w"][0]
    assert abs(np.corrcoef(other.flatten(), many["w"][0].flatten())[0, 1]) < 0.9
    # 210,000 parameters are two chunks, each with noise of its own.
    diagonal = (many["w"][0] - swag.mean()["w"]).flatten()
    assert not torch.equal(diagonal[: 1 << 16], diagonal[1 << 17 : (1 << 17) + (1 << 16)])
    with pytest.raises(InputError, match="missing"):
        swag.draw_into({"w": into["w"]}, 0)
    with pytest.raises(InputError, match="shape"):
        swag.draw_into({"w": torch.zeros(2), "b": into["b"]}, 0)
    with pytest.raises(InputError, match="first=-1"):
        swag.draw(0, first=-1)


def test_what_never_moved_is_drawn_as_it_is() -> None:
    rng = np.random.default_rng(1)
    path = [
        {"still": torch.tensor([0.3]), "w": torch.from_numpy(row.astype(np.float32))}
        for row in rng.normal(size=(4, 3))
    ]
    draws = fitted(path, rank=3).draw(0, 5)
    assert (draws["still"] == path[0]["still"]).all()


@pytest.mark.parametrize("place", ["memory", "disk"])
@pytest.mark.parametrize("precision, within", [("full", 1e-12), ("bfloat16", 0.02)])
def test_precision_and_place(tmp_path: Path, place: str, precision: str, within: float) -> None:
    """bfloat16 keeps 8 bits: each deviation within 0.4 %."""
    path = path_of(12, 7)
    where = tmp_path / "deviations" if place == "disk" else None
    swag = fitted(path, rank=4, precision=precision, path=where)
    kept = flat(swag.deviations(), batch=True)
    exact = fitted(path, rank=4)
    wanted = flat(exact.deviations(), batch=True)
    np.testing.assert_allclose(kept, wanted, rtol=within / 4)
    draws = flat(swag.draw(1, 3), batch=True)
    np.testing.assert_allclose(draws, flat(exact.draw(1, 3), batch=True), atol=within * 10)
    if where is not None:
        assert where.stat().st_size == 4 * 5 * (8 if precision == "full" else 2)
        with pytest.raises(InputError, match="exists"):
            Swag(path[0], path=where)


@pytest.mark.parametrize("precision", ["full", "bfloat16"])
@pytest.mark.parametrize("before", [0, 1, 3, 7])
def test_resume_from_a_file_changes_nothing(tmp_path: Path, precision: str, before: int) -> None:
    path = path_of(13, 9, at=1, by=1e-4, dtype=torch.float32)
    whole = fitted(path, rank=4, scale=0.7, precision=precision)
    part = Swag(path[0], 4, 0.7, precision=precision)
    for parameters in path[:before]:
        part.collect(parameters)
    part.save(tmp_path / "swag.safetensors")
    again = Swag.load(tmp_path / "swag.safetensors", deviations=tmp_path / "ring")
    for parameters in path[before:]:
        again.collect(parameters)
    assert (again.count, again.rank, again.scale) == (9, 4, 0.7)
    for name, value in whole.draw(1, 3).items():
        assert torch.equal(again.draw(1, 3)[name], value)
    assert [file.name for file in tmp_path.glob(".*")] == []


def test_the_file_is_plain_safetensors(tmp_path: Path) -> None:
    file = tmp_path / "swag.safetensors"
    swag = fitted(path_of(1, 3, dtype=torch.float32), rank=5)
    swag.save(file)
    tensors = load_file(file)
    assert {name: tuple(value.shape) for name, value in tensors.items()} == {
        "origin": (5,),
        "offset": (5,),
        "squares": (5,),
        "deviations": (3, 5),
    }
    swag.save(tmp_path / "again")
    assert file.read_bytes() == (tmp_path / "again").read_bytes()


def _header(file: Path, **changes: str) -> None:
    raw = file.read_bytes()
    end = 8 + int.from_bytes(raw[:8], "little")
    table = json.loads(raw[8:end])
    table["__metadata__"] |= changes
    text = json.dumps(table).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(len(text).to_bytes(8, "little") + text + raw[end:])


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "other"},
        {"count": "many"},
        {"count": "-1"},
        {"count": "2"},
        {"rank": "0"},
        {"scale": "nan"},
        {"precision": "half"},
        {"parameters": '[["w", [3], "float32"]]'},
        {"parameters": '[["w", [5], "save"]]'},
        {"parameters": "[]"},
        {"ties": "7"},
    ],
)
def test_a_file_at_odds_with_itself_is_refused(tmp_path: Path, changes: dict[str, str]) -> None:
    file = tmp_path / "swag.safetensors"
    fitted(path_of(1, 3, dtype=torch.float32), rank=5).save(file)
    _header(file, **changes)
    with pytest.raises(InputError):
        Swag.load(file)


def test_a_state_with_nan_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "swag.safetensors"
    fitted(path_of(1, 3, dtype=torch.float32), rank=5).save(file)
    raw = file.read_bytes()
    file.write_bytes(raw[:-4] + np.float32(math.nan).tobytes())
    with pytest.raises(InputError, match="'deviations' holds NaN"):
        Swag.load(file)


def test_files_that_are_no_state(tmp_path: Path) -> None:
    file = tmp_path / "swag.safetensors"
    with pytest.raises(InputError, match="not a whole"):
        Swag.load(file)
    fitted(path_of(1, 3), rank=5).save(file)
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(InputError, match="not a whole"):
        Swag.load(file)
    save_file({"w": torch.zeros(2)}, file)
    with pytest.raises(InputError, match="not a SWAG state"):
        Swag.load(file)
    (tmp_path / "plain").write_text("a file, not a folder")
    with pytest.raises(RunFailed, match="cannot be written"):
        fitted(path_of(1, 3), rank=5).save(tmp_path / "plain" / "swag")


class Tied(nn.Module):
    """An embedding that is the output layer too, and a parameter of the parent itself."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.randn(3))
        self.embed = nn.Embedding(4, 3)
        self.out = nn.Linear(3, 4)
        self.out.weight = self.embed.weight

    def forward(self, codes: Tensor) -> Tensor:
        found: Tensor = self.out(self.embed(codes) + self.token)
        return found


def test_tied_weights_count_once_and_stay_tied() -> None:
    torch.manual_seed(0)
    model = Tied()
    swag = Swag(model.state_dict(), rank=3)
    assert swag.size == 3 + 12 + 4
    for _ in range(4):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += torch.randn_like(parameter)
        swag.collect(model.state_dict())
    draws = swag.draw(0, 2)
    assert set(draws) == set(model.state_dict())
    assert torch.equal(draws["embed.weight"], draws["out.weight"])
    by_parameters = Swag(dict(model.named_parameters()), rank=3)
    assert by_parameters.size == swag.size
    apart = {name: value.clone() for name, value in model.state_dict().items()}
    swag.collect(apart)
    apart["out.weight"] += 1
    with pytest.raises(InputError, match="now differs"):
        swag.collect(apart)


def test_draws_run_through_the_model_at_once() -> None:
    torch.manual_seed(1)
    model = Tied()
    path = [{n: p.detach() + torch.randn_like(p) for n, p in model.named_parameters()}] * 1
    path += [{n: p + torch.randn_like(p) for n, p in path[0].items()} for _ in range(3)]
    draws = fitted(path, rank=3).draw(3, 5)
    codes = torch.tensor([0, 3, 1])

    def run(parameters: dict[str, Tensor]) -> Tensor:
        found: Tensor = torch.func.functional_call(model, parameters, (codes,))
        return found

    together = torch.func.vmap(run)(draws)
    alone = torch.stack([run({n: v[s] for n, v in draws.items()}) for s in range(5)])
    assert torch.allclose(together, alone, atol=1e-5)


def test_half_precision_models_keep_their_types() -> None:
    path = [
        {"w": torch.tensor([1.0, x], dtype=torch.bfloat16), "b": torch.tensor(x)}
        for x in (0.5, 1.0, 3.0)
    ]
    swag = fitted(path, rank=2)
    draws = swag.draw(0, 2)
    assert draws["w"].dtype == torch.bfloat16 and draws["b"].dtype == torch.float32
    assert draws["w"].shape == (2, 2) and draws["b"].shape == (2,)
    assert swag.draw(0, 2, dtype=torch.float64)["w"].dtype == torch.float64


def test_too_few_collections() -> None:
    one = {"w": torch.ones(2)}
    swag = Swag(one)
    with pytest.raises(InputError, match="at least 1 collections, got 0"):
        swag.mean()
    swag.collect(one)
    assert swag.mean()["w"].tolist() == [1, 1]
    with pytest.raises(InputError, match="at least 2 collections, got 1"):
        swag.draw(0)


@pytest.mark.parametrize(
    "changed, words",
    [
        ({"w": torch.ones(3)}, "shape"),
        ({"w": torch.ones(2, 2)}, "shape"),
        ({"v": torch.ones(2)}, "not one of those"),
        ({}, "missing"),
        ({"w": torch.tensor([1.0, math.nan])}, "NaN or infinity"),
        ({"w": torch.tensor([1.0, math.inf])}, "NaN or infinity"),
        ({"w": torch.tensor([1, 2])}, "not a floating"),
    ],
)
def test_a_refused_collection_changes_nothing(changed: dict[str, Tensor], words: str) -> None:
    swag = fitted([{"w": torch.tensor([x, 1.0])} for x in (1.0, 2.0, 4.0)], rank=2)
    before = swag.draw(0)["w"]
    with pytest.raises(InputError, match=words):
        swag.collect(changed)
    assert swag.count == 3 and torch.equal(swag.draw(0)["w"], before)


@pytest.mark.parametrize(
    "settings_, words",
    [
        ({"rank": 0}, "rank=0"),
        ({"rank": 2.5}, "whole"),
        ({"rank": True}, "whole"),
        ({"scale": 0.0}, "scale=0.0"),
        ({"scale": math.inf}, "scale=inf"),
        ({"scale": math.nan}, "scale=nan"),
        ({"precision": "float16"}, "precision"),
        ({"path": "/nowhere/at/all"}, "cannot be made"),
    ],
)
def test_settings_out_of_range(settings_: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Swag({"w": torch.ones(2)}, **settings_)


def test_parameters_that_cannot_be_taken() -> None:
    whole = torch.ones(4, 4)
    wrong: list[tuple[Any, str]] = [
        ({}, "empty"),
        ({"n": torch.tensor(3)}, "not a floating"),
        ({"w": torch.ones(0)}, "no values"),
        ({"w": whole, "turned": whole.T[:3]}, "share memory"),
        ({"w": [1.0]}, "not a floating"),
    ]
    for parameters, words in wrong:
        with pytest.raises(InputError, match=words):
            Swag(parameters)
    assert Swag({"low": whole[:2], "high": whole[2:]}).size == 16


def test_draws_out_of_range() -> None:
    swag = fitted(path_of(1, 3), rank=2)
    for call in (
        lambda: swag.draw(-1),
        lambda: swag.draw(0, 0),
        lambda: swag.draw(0, 1, scale=-1.0),
        lambda: swag.draw(True),
    ):
        with pytest.raises(InputError):
            call()
