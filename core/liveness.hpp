// Liveness of tensors in graph order, before a plan exists. For plans see lifetimes.hpp and residency.hpp.
#pragma once

#include <optional>
#include <vector>

#include "core/graph.hpp"

namespace um {

// Per tensor, the range from the first operator that touches it to the last; nothing if none does.
std::vector<std::optional<index_range>> touched_ranges(const graph& g);

// As touched_ranges(), but tensors that persist are alive from the first operator on, and those that survive
// until the last.
std::vector<std::optional<index_range>> live_ranges(const graph& g);

// Per tensor: its bytes in an arena.
std::vector<byte_count> sizes_in_arena(const graph& g);

// Bytes alive while each operator runs, with `size` per tensor. An output computed in place counts once.
std::vector<byte_count> live_bytes(const graph& g, const std::vector<byte_count>& size);

}  // namespace um
