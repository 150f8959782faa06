// Addresses of all lifetimes of a plan, and the sizes of the arenas: packing of lifetimes.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/lifetimes.hpp"
#include "core/pack.hpp"

namespace um {

enum class space : std::uint8_t { device, managed, pinned };

struct address {
  space where = space::device;
  byte_count offset = 0;
};

// Composition of the footprint at the peak. The terms add up to `total`.
struct footprint_terms {
  byte_count parameters = 0, parameter_gradients = 0, activations = 0, activation_gradients = 0;
  byte_count inputs = 0, workspace = 0, fragmentation = 0;
  byte_count total = 0;
};

struct layout {
  std::vector<byte_count> offsets;  // one per lifetime, in the device arena or the managed arena
  byte_count device_bytes = 0, managed_bytes = 0;  // sizes of these arenas
  std::vector<byte_count> live_device_bytes;       // bytes in use in the device arena, one per action
  footprint_terms terms;
};

// Packs the lifetimes of a plan; those that share an address in place form one block. Managed lifetimes, and
// all lifetimes if nothing is staged, are measured in computes, so movements of managed memory that a planner
// adds later do not change addresses.
layout make_layout(const graph& g, const lifetime_table& table, const memory_plan& plan, packer how);
// The layout of a plan that differs from the plan of `known` only in movements of managed memory. Packs
// nothing again.
layout make_layout_like(const layout& known, const graph& g, const lifetime_table& table,
                        const memory_plan& plan);

// Bytes in use in both arenas at each action, workspaces included: a lower bound for packing.
std::vector<byte_count> live_bytes(const problem& p, const memory_plan& plan);

// The most bytes in use at an action by the lifetimes that `is_counted` selects.
byte_count peak_bytes(const lifetime_table& table, const std::function<bool(const lifetime&)>& is_counted);

// Actions [begin, end) whose lifetimes alone, cut off at both ends, take more than some budget once packed.
struct crowded_range {
  std::uint32_t begin = 0, end = 0;
  byte_count live_bytes = 0, packed_bytes = 0;  // maximum of the bytes in use, and the arena's size
};
// Short ranges of a plan that take more than `budget` bytes of the device arena.
std::vector<crowded_range> find_crowded_ranges(const problem& p, const memory_plan& plan, byte_count budget);

// The footprint: packed memory of the plan that keeps everything on the device.
footprint_terms footprint_of(const graph& g, const profile& costs, packer how = packers::searched);

}  // namespace um
