"""Small models on which clipping libraries fail, and a loop written without the engine."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

CLASSES, WORDS, WIDTH, LENGTH = 3, 11, 6, 5


def loss(module: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    x, y = batch
    return F.cross_entropy(module(x), y, reduction="none")


def by_hand(
    module: nn.Module,
    loss_of: Callable[..., Tensor],
    batch: Any,
    clip: float,
    weights: Any = None,
    copies: int = 1,
) -> tuple[dict[str, Tensor], Tensor]:
    """One backward pass a row; means over copies, clipped, weighted, added up, all in double."""
    names = {n: p for n, p in module.named_parameters() if p.requires_grad}
    sums = {n: torch.zeros_like(p, dtype=torch.float64) for n, p in names.items()}
    norms: list[float] = []
    for start in range(0, len(batch[0]), copies):
        mean = {n: torch.zeros_like(p, dtype=torch.float64) for n, p in names.items()}
        for row in range(start, start + copies):
            one = tuple(part[row : row + 1] for part in batch)
            own = loss_of(module, one)[0]
            made = torch.autograd.grad(own, list(names.values()), allow_unused=True)
            for name, g in zip(names, made, strict=True):
                mean[name] += 0 if g is None else g.double() / copies
        norms.append(length(mean))
        factor = 1.0 if weights is None else float(weights[len(norms) - 1])
        for name, g in mean.items():
            sums[name] += factor * min(1.0, clip / max(norms[-1], 1e-300)) * g
    return sums, torch.tensor(norms)


def length(sums: dict[str, Tensor]) -> float:
    return sum(float(s.double().square().sum()) for s in sums.values()) ** 0.5


def gap(first: dict[str, Tensor], second: dict[str, Tensor]) -> float:
    return length({n: first[n].double() - second[n].double() for n in first})


class Model(nn.Module):
    """Parts by name, and a forward that is handed in."""

    def __init__(self, forward: Callable[..., Tensor], **parts: Any) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self._run = forward

    def forward(self, x: Tensor) -> Tensor:
        return self._run(self, x)


def numbers(count: int, *shape: int) -> tuple[Tensor, Tensor]:
    return torch.randn(count, *shape), torch.randint(0, CLASSES, (count,))


def words(count: int) -> tuple[Tensor, Tensor]:
    return torch.randint(0, WORDS, (count, LENGTH)), torch.randint(0, CLASSES, (count,))


def head() -> nn.Linear:
    return nn.Linear(WIDTH, CLASSES)


def table(**settings: Any) -> nn.Embedding:
    return nn.Embedding(WORDS, WIDTH, **settings)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(4, WIDTH), nn.Tanh(), head())


def batch_norm() -> nn.Module:
    return nn.Sequential(nn.Linear(4, WIDTH), nn.BatchNorm1d(WIDTH), head())


def batch_norm_without_statistics() -> nn.Module:
    norm = nn.BatchNorm1d(WIDTH, track_running_stats=False)
    return nn.Sequential(nn.Linear(4, WIDTH), norm, head())


def attention() -> nn.Module:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = m.emb(x)
        return m.head(m.att(h, h, h, need_weights=False)[0].mean(1))

    inner = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
    return Model(forward, emb=table(), att=inner, head=head())


def norm_on_data() -> nn.Module:
    """A norm whose input wants a gradient that no layer can give, and one that is not used."""

    def forward(m: Any, x: Tensor) -> Tensor:
        m.aside(torch.tanh(m.fc(x)))
        return m.head(torch.tanh(m.norm(2 * x.clone().requires_grad_())))

    norms = {"norm": nn.LayerNorm(4), "aside": nn.LayerNorm(WIDTH)}
    return Model(forward, fc=nn.Linear(4, WIDTH), head=nn.Linear(4, CLASSES), **norms)


def norm_aside() -> nn.Module:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = torch.tanh(m.fc(x))
        m.aside(h)
        return m.head(m.norm(h))

    norms = {"norm": nn.LayerNorm(WIDTH), "aside": nn.LayerNorm(WIDTH)}
    return Model(forward, fc=nn.Linear(4, WIDTH), head=head(), **norms)


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 8, dropout=0.1, batch_first=True)
    return Model(
        lambda m, x: m.head(m.layer(m.emb(x)).mean(1)), emb=table(), layer=layer, head=head()
    )


def recurrent(kind: type[nn.RNNBase]) -> nn.Module:
    return Model(
        lambda m, x: m.head(m.inner(m.emb(x))[0][:, -1]),
        emb=table(),
        inner=kind(WIDTH, WIDTH, batch_first=True),
        head=head(),
    )


class OwnRMSNorm(nn.Module):
    """A norm of a user's own, with its scale counted from 1."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.1 * torch.randn(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        normal = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)
        return normal * (1 + self.weight)


class SquaredRMSNorm(OwnRMSNorm):
    """Named like a norm, but not affine in its scale."""

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight.square()


def shared_parameter() -> nn.Module:
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.weight = first.weight
    last = nn.Linear(4, CLASSES)
    return nn.Sequential(first, nn.Tanh(), second, nn.Tanh(), last)


def functional_reuse() -> nn.Module:
    return Model(
        lambda m, x: m.head(F.linear(torch.tanh(m.emb(x).mean(1)), m.emb.weight)),
        emb=table(),
        head=nn.Linear(WORDS, CLASSES),
    )


def functional_reuse_that_cancels() -> nn.Module:
    """The recorded half of the gradient is far smaller than the whole one."""
    model = functional_reuse()
    with torch.no_grad():
        model.emb.weight *= 0.01
        model.head.weight *= 30
    return model


def tied_module() -> nn.Module:
    def forward(m: Any, x: Tensor) -> Tensor:
        return m.head(m.out(torch.tanh(m.emb(x).mean(1))))

    model = Model(
        forward,
        emb=table(),
        out=nn.Linear(WIDTH, WORDS, bias=False),
        head=nn.Linear(WORDS, CLASSES),
    )
    model.out.weight = model.emb.weight
    return model


def called_twice() -> nn.Module:
    return Model(
        lambda m, x: m.head(m.fc(torch.tanh(m.fc(x)))),
        fc=nn.Linear(4, 4),
        head=nn.Linear(4, CLASSES),
    )


def mean_subtraction() -> nn.Module:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = m.fc(x)
        return m.head(torch.tanh(h - h.mean(0)))

    return Model(forward, fc=nn.Linear(4, WIDTH), head=head())


def positions(wide: bool) -> nn.Module:
    def forward(m: Any, x: Tensor) -> Tensor:
        place = torch.arange(x.shape[1])
        return m.head(torch.tanh(m.emb(x) + m.pos(place[None] if wide else place)).mean(1))

    return Model(forward, emb=table(), pos=nn.Embedding(LENGTH, WIDTH), head=head())


def linear_on_four() -> nn.Module:
    return Model(
        lambda m, x: m.head(torch.tanh(m.fc(x)).mean((1, 2))), fc=nn.Linear(4, WIDTH), head=head()
    )


def by_keyword() -> nn.Module:
    return Model(
        lambda m, x: m.head(input=torch.tanh(m.fc(input=x))), fc=nn.Linear(4, WIDTH), head=head()
    )


def padded() -> nn.Module:
    return Model(
        lambda m, x: m.head(torch.tanh(m.emb(x)).sum(1)), emb=table(padding_idx=0), head=head()
    )


def checkpointed(reentrant: bool) -> nn.Module:
    def forward(m: Any, x: Tensor) -> Tensor:
        first = torch.tanh(m.first(x))
        return m.head(checkpoint(lambda h: torch.tanh(m.fc(h)), first, use_reentrant=reentrant))

    return Model(forward, first=nn.Linear(4, WIDTH), fc=nn.Linear(WIDTH, WIDTH), head=head())


def in_place() -> nn.Module:
    return nn.Sequential(nn.Linear(4, WIDTH), nn.ReLU(inplace=True), head())


def in_place_later() -> nn.Module:
    """The input of `fc` is overwritten after `fc` has read it, where autograd does not mind."""

    def forward(m: Any, x: Tensor) -> Tensor:
        copy = x.clone()
        h = m.fc(copy)
        copy.mul_(0)
        return m.head(torch.tanh(h) + 0 * copy.sum())

    return Model(forward, fc=nn.Linear(4, WIDTH), head=head())


def in_place_on_view() -> nn.Module:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = m.fc(x)
        h[:, :2].mul_(3)
        return m.head(torch.tanh(h))

    return Model(forward, fc=nn.Linear(4, WIDTH), head=head())


def in_place_on_rows() -> nn.Module:
    """A Linear on three dimensions may give a view, whose history an in-place step rewrites."""

    def forward(m: Any, x: Tensor) -> Tensor:
        h = m.fc(x)
        h[:, 0].mul_(3)
        h.mul_(2)
        return m.head(torch.tanh(h).mean((1, 2)))

    return Model(forward, fc=nn.Linear(4, WIDTH), head=head())


def rewritten_view() -> nn.Module:
    """A layer's output is a view of a larger tensor that is then changed in place."""

    def forward(m: Any, x: Tensor) -> Tensor:
        h = m.fc(x)
        h.mul_(2)
        return m.head(torch.tanh(h))

    model = Model(forward, fc=nn.Linear(4, WIDTH), head=head())
    model.fc.register_forward_hook(lambda part, args, out: (1 * out).view(-1, WIDTH))
    return model


def bag() -> nn.Module:
    return Model(
        lambda m, x: m.head(torch.tanh(m.bag(x))), bag=nn.EmbeddingBag(WORDS, WIDTH), head=head()
    )


def convolutions(norm: nn.Module, **settings: Any) -> nn.Module:
    conv = nn.Conv2d(4, 8, 3, **settings)
    return Model(
        lambda m, x: m.head(torch.tanh(m.norm(m.conv(x))).mean((2, 3))),
        conv=conv,
        norm=norm,
        head=nn.Linear(8, CLASSES),
    )


def signal() -> nn.Module:
    conv = nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2, dilation=2)
    return Model(lambda m, x: m.head(torch.tanh(m.conv(x)).mean(2)), conv=conv, head=head())


def transposed() -> nn.Module:
    conv = nn.ConvTranspose2d(4, WIDTH, 2)
    return Model(lambda m, x: m.head(torch.tanh(m.conv(x)).mean((2, 3))), conv=conv, head=head())


def small(part: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(4, WIDTH), part, head())


def sorting() -> nn.Module:
    """Works on its examples in another order, as packed sequences do."""

    def forward(m: Any, x: Tensor) -> Tensor:
        order = x[:, 0].argsort()
        return m.head(torch.tanh(m.fc(x[order])))[order.argsort()]

    return Model(forward, fc=nn.Linear(4, WIDTH), head=head())


def raw() -> nn.Module:
    scale = nn.Parameter(torch.randn(WIDTH))
    return Model(
        lambda m, x: m.head(torch.tanh(m.fc(x) * m.scale)),
        fc=nn.Linear(4, WIDTH),
        scale=scale,
        head=head(),
    )


def half_frozen() -> nn.Module:
    model = mlp()
    model[0].weight.requires_grad_(False)
    model[2].bias.requires_grad_(False)
    return model


def hooked() -> nn.Module:
    """A user's hook doubles an output: the stored input no longer tells the gradient."""
    model = mlp()
    model[0].register_forward_hook(lambda part, args, out: out * 2)
    return model


def dropped() -> nn.Module:
    return nn.Sequential(nn.Linear(4, WIDTH), nn.Tanh(), nn.Dropout(0.5), head())


def lower() -> nn.Module:
    """A little transformer from covered layers only."""

    def forward(m: Any, x: Tensor) -> Tensor:
        h = m.emb(x) + m.pos(torch.arange(x.shape[1]))
        q, k, v = m.qkv(m.norm(h)).chunk(3, dim=-1)
        h = h + m.out(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return m.head(m.last(h)[:, -1])

    return Model(
        forward,
        emb=table(),
        pos=nn.Embedding(LENGTH, WIDTH),
        norm=nn.LayerNorm(WIDTH),
        qkv=nn.Linear(WIDTH, 3 * WIDTH),
        out=nn.Linear(WIDTH, WIDTH),
        last=nn.RMSNorm(WIDTH),
        head=head(),
    )
