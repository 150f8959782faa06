"""Fitted models measured beside PyTorch's own on a GPU."""
