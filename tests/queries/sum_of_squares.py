"""An aggregate as it would be added: this class, and its name in `AGGREGATES`."""

from dataclasses import dataclass, replace

from lethe.queries.aggregates.moments import OfColumn
from lethe.queries.lattice import VARIANCE_CELLS, CellLayout, from_first_sql, lattice_of
from lethe.queries.mechanisms import additive


@dataclass(frozen=True)
class Squares(OfColumn):
    """The sum of the squares of how far values lie above the lower bound."""

    EXAMPLES = {"squares": "squares(pay) in [0, 100]"}
    word = "squares"

    def layout(self, keys, schema):
        grid = lattice_of(self.bounds, schema[self.column], VARIANCE_CELLS)
        unit = from_first_sql(schema[self.column], grid)
        return CellLayout(keys, (unit,), (self.column,), ("u0 * u0",), lattices=(grid,))

    def sensitivity(self, whose, grouped):
        return f"one person moves it by at most {whose.rows} squares of the bounds' distance"

    def answered(self, exact, layout, spend, whose):
        (grid,) = layout.lattices
        moved = whose.rows * grid.width**2
        drawn = additive.noised(exact.sums, l1=moved, l2=moved, spend=spend)
        steps = additive.stated(drawn.values[0], drawn.law, spend, whose, 0.95, grid.note())
        limits = {name: getattr(steps, name) * grid.step**2 for name in ("value", "low", "high")}
        return (replace(steps, **limits),)
