"""PyTorch's graphs and umbench: models become graph files. Needs torch; nothing else in umbench does."""
