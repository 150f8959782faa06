"""PyTorch and umbench: models become graph files, and `fit` makes them train within a budget. Needs torch; nothing else in umbench does."""

from .fit import fit
from .plan import Plan
from .planner import NoPlan

__all__ = ["NoPlan", "Plan", "fit"]
