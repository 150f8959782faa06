"""Figures, tables and reports of record files."""
