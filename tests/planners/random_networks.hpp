// Small networks by dice: convolutions, ReLUs, pools, normalisations and sums of branches.
#pragma once

#include <random>
#include <vector>

#include "networks/builder.hpp"

namespace um::testing {

// A training network of at most `most_operators`, with random batch, images and channels; tensors of some
// MiB.
inline graph random_network(std::uint32_t seed, std::size_t most_operators) {
  std::mt19937 dice(seed);
  const auto below = [&](unsigned n) { return static_cast<std::int64_t>(dice() % n); };
  const auto finished = [&](std::size_t layers) {
    builder b("random" + std::to_string(seed), pass::train);
    tensor_id y = b.input("x", {8 << below(2), 3 + below(3), 64, 64});
    std::int64_t channels = 8 << below(3);
    std::vector<tensor_id> branches;
    for (std::size_t i = 0; i < layers; ++i) {
      const std::string name = "l" + std::to_string(i);
      switch (i == 0 ? 0 : below(6)) {
        case 0:
        case 1:
          if (i > 0 && below(4) == 0) channels = std::min<std::int64_t>(channels * 2, 64);
          y = b.convolution(name, y, {channels, 3, 1, 1});
          break;
        case 2:
          y = b.relu(name, y);
          break;
        case 3:
          if (b.so_far().tensors[y].shape.h >= 16) y = b.max_pool(name, y, 2, 2, partial_windows::dropped);
          break;
        case 4:
          y = b.batch_norm(name, y);
          break;
        default:
          branches.push_back(y);
      }
      if (branches.empty() || below(2) == 0) continue;
      const tensor_id other = branches.back();
      if (other == y || b.so_far().tensors[other].shape != b.so_far().tensors[y].shape) continue;
      branches.pop_back();
      y = b.add(name + "_sum", other, y);
    }
    return b.training(b.linear("fc", y, 10), below(2) == 0 ? fusion::none : fusion::fused, false);
  };
  for (std::size_t layers = 14;; --layers) {
    dice.seed(seed);
    graph g = finished(layers);
    if (g.ops.size() <= most_operators) return g;
  }
}

}  // namespace um::testing
