"""PyTorch and umbench: models become graph files, `fit` makes them train within a budget, `managed_pool` puts them into managed memory.
Needs torch; nothing else in umbench does."""

from .fit import fit
from .managed import managed_pool
from .plan import Plan
from .planner import NoPlan

__all__ = ["NoPlan", "Plan", "fit", "managed_pool"]
