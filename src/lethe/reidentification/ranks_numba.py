"""Score, compare and count in registers: the fast way to the same ranks (extra `fast`).

The gallery lies in panels of 32 users (on AVX-512; see `TILES`), transposed, the bias first. A tile
of 12 probes x 32 users is held in 24 vector registers; every dimension is one fused multiply-add
each, and only counts leave the registers. A row with a score between its thresholds is done again
in float64 by `_again`.

Written in LLVM's own language because a loop in Python's makes numba keep the sums in memory (a
tenth of the speed).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from lethe.errors import InputError, require
from lethe.reidentification.geometry import Counts, Gallery, Probes
from lethe.reidentification.vectors import Float, Float32
from lethe.training.environment import INSTALLED, compiled

TILES = {"avx512f": (12, 2, 16), "fma": (6, 2, 8), "neon": (6, 3, 4)}
"""CPU feature: probes, vectors and numbers in a vector; as many sums as fit in its registers."""

PANELS = 32  # a block of the gallery that stays in the cache while 96 probes pass by
CHUNK = 96
_FAR = np.finfo(np.float32).min


def tile_of(features: dict[str, bool]) -> tuple[int, int, int] | None:
    """The tile for a CPU; None where it has no fused multiply-add that is known here."""
    return next((tile for name, tile in TILES.items() if features.get(name)), None)


@functools.cache
def host_tile() -> tuple[int, int, int] | None:
    """The tile for this CPU; None without numba."""
    if not INSTALLED:
        return None
    return tile_of(dict(require("llvmlite.binding", "fast").get_host_cpu_features()))


_PROBES, _VECTORS, _WIDTH = host_tile() or (4, 1, 4)
_USERS = _VECTORS * _WIDTH


def _tile(
    context: Any, rows: Any, start: Any, panels: Any, panel: Any, d: Any, edges: Any, counts: Any
) -> Any:
    """Typing and code of `tile(rows, start, panels, panel, d, edges, counts)`.

    Adds to `counts[start + r]` how many users of the panel are surely closer to probe start + r,
    except where one is unsure; returns a bit for each such probe. `rows` is flat float32 (tiles *
    d * probes), so that the addresses of a tile need one register; `panels` is flat (panels *
    (d + 1) * users), `edges` flat (2 * P): low, high.
    """
    ir, utils = require("llvmlite.ir", "fast"), require("numba.core.cgutils", "fast")
    arguments = (rows, start, panels, panel, d, edges, counts)
    signature = require("numba.core.types", "fast").int64(*arguments)

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        def data(at: int) -> Any:
            return utils.create_struct_proxy(signature.args[at])(context, builder, given[at]).data

        i64, i32, f32 = ir.IntType(64), ir.IntType(32), ir.FloatType()
        vector, bits = ir.VectorType(f32, _WIDTH), ir.IntType(_USERS)
        fma = utils.get_or_insert_function(
            builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{_WIDTH}f32"
        )
        popcount = utils.get_or_insert_function(
            builder.module, ir.FunctionType(bits, [bits]), f"llvm.ctpop.i{_USERS}"
        )
        undefined = ir.Constant(vector, ir.Undefined)
        lanes = ir.Constant(ir.VectorType(i32, _WIDTH), [0] * _WIDTH)

        def number(value: int) -> Any:
            return ir.Constant(i64, value)

        def spread(pointer: Any) -> Any:
            one = builder.insert_element(undefined, builder.load(pointer), ir.Constant(i32, 0))
            return builder.shuffle_vector(one, undefined, lanes)

        def user_vectors(pointer: Any) -> list[Any]:
            found = []
            for v in range(_VECTORS):
                at = builder.gep(pointer, [number(v * _WIDTH)])
                loaded = builder.load(builder.bitcast(at, vector.as_pointer()))
                loaded.align = 4
                found.append(loaded)
            return found

        def marks(compared: list[Any]) -> Any:
            found = None
            for v, one in enumerate(compared):
                wide = builder.zext(builder.bitcast(one, ir.IntType(_WIDTH)), bits)
                moved = builder.shl(wide, ir.Constant(bits, v * _WIDTH))
                found = moved if found is None else builder.or_(found, moved)
            return found

        def add(row: Any, number_of_users: Any) -> None:
            count = builder.gep(data(6), [row])
            builder.store(builder.add(builder.load(count), number_of_users), count)

        start, panel, d = given[1], given[3], given[4]
        rows = builder.gep(data(0), [builder.mul(start, d)])
        long = builder.mul(builder.add(d, number(1)), number(_USERS))
        base = builder.gep(data(2), [builder.mul(panel, long)])
        bias = user_vectors(base)
        entry = builder.block
        loop, end = builder.append_basic_block("loop"), builder.append_basic_block("end")
        builder.branch(loop)

        builder.position_at_end(loop)
        k = builder.phi(i64)
        k.add_incoming(number(0), entry)
        sums = [[builder.phi(vector) for _ in range(_VECTORS)] for _ in range(_PROBES)]
        next_k = builder.add(k, number(1))
        users = user_vectors(builder.gep(base, [builder.mul(next_k, number(_USERS))]))
        factors = builder.gep(rows, [builder.mul(k, number(_PROBES))])
        new = []
        for r in range(_PROBES):
            factor = spread(builder.gep(factors, [number(r)]))
            new.append([builder.call(fma, [factor, users[v], sums[r][v]]) for v in range(_VECTORS)])
        for r in range(_PROBES):
            for v in range(_VECTORS):
                sums[r][v].add_incoming(bias[v], entry)
                sums[r][v].add_incoming(new[r][v], loop)
        k.add_incoming(next_k, loop)
        builder.cbranch(builder.icmp_signed("<", next_k, d), loop, end)

        builder.position_at_end(end)
        above, differ, doubt = [], [], ir.Constant(bits, 0)
        for r in range(_PROBES):
            at = builder.add(start, number(r))
            edge = builder.gep(data(5), [builder.mul(at, number(2))])
            low, high = spread(edge), spread(builder.gep(edge, [number(1)]))
            above.append(marks([builder.fcmp_ordered(">", one, high) for one in new[r]]))
            reach = marks([builder.fcmp_ordered(">=", one, low) for one in new[r]])
            differ.append(builder.xor(above[r], reach))
            doubt = builder.or_(doubt, differ[r])
            add(at, builder.zext(builder.call(popcount, [above[r]]), i64))
        unsure, done = builder.append_basic_block("unsure"), builder.append_basic_block("done")
        builder.cbranch(builder.icmp_unsigned("==", doubt, ir.Constant(bits, 0)), done, unsure)

        builder.position_at_end(unsure)
        flags = number(0)
        for r in range(_PROBES):
            open_row = builder.icmp_unsigned("!=", differ[r], ir.Constant(bits, 0))
            counted = builder.zext(builder.call(popcount, [above[r]]), i64)
            undone = builder.select(open_row, builder.neg(counted), number(0))
            add(builder.add(start, number(r)), undone)
            flags = builder.or_(flags, builder.shl(builder.zext(open_row, i64), number(r)))
        builder.branch(done)

        builder.position_at_end(done)
        result = builder.phi(i64)
        result.add_incoming(number(0), end)
        result.add_incoming(flags, unsure)
        return result

    return signature, code


def _again_python(
    probe: Float, owner: Float, users: Float, tie: float, sums: Float
) -> tuple[int, int]:
    """Closer and tied users of a panel (d, users) in float64, as `geometry.closeness` has it."""
    sums[:] = 0
    for k in range(len(probe)):
        for j in range(_USERS):
            v, t, u = users[k, j], owner[k], probe[k]
            sums[j] += (v - t) * ((u - v) + (u - t))
    closer, tied = 0, 0
    for j in range(_USERS):
        if sums[j] > tie:
            closer += 1
        elif sums[j] >= -tie:
            tied += 1
    return closer, tied


def _count_python(
    rows: Float32,
    wide: Float,
    edges: Float32,
    owners: Float,
    true: Any,
    tie: Float,
    narrow_panels: Float32,
    wide_panels: Float,
    closer: Any,
    tied: Any,
) -> None:
    """Add the counts of all probes (a whole number of tiles)."""
    probes, d = len(closer), wide.shape[1]
    sums = np.empty(_USERS)
    for first in range(0, probes, CHUNK):
        last = min(probes, first + CHUNK)
        for left in range(0, wide_panels.shape[0], PANELS):
            right = min(wide_panels.shape[0], left + PANELS)
            for start in range(first, last, _PROBES):
                for panel in range(left, right):
                    flags = tile(rows, start, narrow_panels, panel, d, edges, closer)
                    r = start
                    while flags:
                        if flags & 1:
                            more, same = _again(
                                wide[r], owners[true[r]], wide_panels[panel], tie[r], sums
                            )
                            closer[r] += more
                            tied[r] += same
                        flags >>= 1
                        r += 1


if INSTALLED:
    # numba looks these names up in the module: the compiled functions call each other.
    tile = require("numba.extending", "fast").intrinsic(_tile)
    _again = compiled(_again_python, fastmath={"contract"})
    _count = compiled(_count_python)


@dataclass(frozen=True, eq=False)
class NumbaCounter:
    """Counts in registers; a tile of probes and users at a time."""

    narrow: Float32  # flat float32 panels (panels * (d + 1) * users), the bias first
    wide: Float  # float64 (panels, d, users)
    owners: Float  # float64 (G, d), the gallery as it is

    @classmethod
    def of(cls, gallery: Gallery) -> NumbaCounter:
        """Pack a gallery; the last panel is filled with users infinitely far away.

        Raises:
            MissingExtra: numba is not installed.
            InputError: numba's compiler is not known to be fast on this CPU.
        """
        require("numba", "fast")
        if host_tile() is None:
            raise InputError(
                "backend='numba' needs a CPU with fused multiply-add (AVX-512, AVX2 with FMA, or "
                "NEON). Say backend='numpy': the ranks are the same."
            )
        users, d = gallery.wide.shape
        size = -(-users // _USERS) * _USERS
        narrow = np.zeros((size, d + 1), np.float32)
        narrow[:, 0] = _FAR
        narrow[:users, 0], narrow[:users, 1:] = gallery.bias, gallery.wide
        wide = np.full((size, d), np.inf)
        wide[:users] = gallery.wide
        panels = (
            np.ascontiguousarray(table.reshape(-1, _USERS, table.shape[1]).transpose(0, 2, 1))
            for table in (narrow, wide)
        )
        return cls(next(panels).ravel(), next(panels), gallery.wide)

    def count(self, probes: Probes) -> Counts:
        """Closer and tied users of each probe."""
        number = len(probes.true)
        tiles = -(-number // _PROBES) * _PROBES
        d = probes.narrow.shape[1]
        rows = np.zeros((tiles, d), np.float32)
        rows[:number] = probes.narrow
        packed = rows.reshape(-1, _PROBES, d).transpose(0, 2, 1).ravel()
        edges = np.full((tiles, 2), np.inf, np.float32)
        edges[:number, 0], edges[:number, 1] = probes.low, probes.high
        closer, tied = np.zeros(tiles, np.int64), np.zeros(tiles, np.int64)
        _count(
            packed,
            probes.wide,
            edges.ravel(),
            self.owners,
            probes.true,
            probes.tie,
            self.narrow,
            self.wide,
            closer,
            tied,
        )
        return closer[:number], tied[:number] - 1
