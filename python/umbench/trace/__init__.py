"""Traces of Unified Memory in any program: recorded by `umbench trace`, explained by `umbench explain` (docs/trace.md)."""
