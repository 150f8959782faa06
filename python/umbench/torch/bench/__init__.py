"""Measures fitted models and PyTorch's own ways of saving memory on a GPU."""
