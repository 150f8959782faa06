// Addresses of all lifetimes of a plan, and the arena sizes: packing applied to lifetimes.
#pragma once

#include <cstdint>
#include <vector>

#include "core/lifetimes.hpp"
#include "core/pack.hpp"

namespace um {

enum class space : std::uint8_t { device, managed, pinned };

struct address {
  space where = space::device;
  byte_count offset = 0;
};

// Peak-time composition of the footprint, for the record. Parts add up to `total`.
struct footprint_terms {
  byte_count parameters = 0, parameter_gradients = 0, activations = 0, activation_gradients = 0;
  byte_count inputs = 0, workspace = 0, fragmentation = 0;
  byte_count total = 0;
};

struct layout {
  std::vector<byte_count> offset;  // one per lifetime, in the device arena or the managed arena
  byte_count device_bytes = 0, managed_bytes = 0;
  std::vector<byte_count> live_device_bytes;  // bytes in use in the device arena, one per action
  footprint_terms terms;
};

// Lifetimes that share an address in place are packed as one. For managed lifetimes, and for all if nothing
// is staged, time is counted in computes only: movements of managed memory that a planner adds later do not
// change addresses.
layout lay_out(const graph& g, const lifetime_table& table, const memory_plan& plan, packer how);
// The same without packing, for a plan that differs from the plan of `known` only in such movements.
layout lay_out_like(const layout& known, const graph& g, const lifetime_table& table,
                    const memory_plan& plan);

// Bytes in use in both arenas at each action, workspaces included: a lower bound for packing.
std::vector<byte_count> live_bytes(const problem& p, const memory_plan& plan);

// The footprint: what the plan with everything on the device needs, after packing.
footprint_terms footprint_of(const graph& g, const profile& costs, packer how = packers::searched);

// Whether two lifetimes share addresses of one arena.
bool share_addresses(const lifetime_table& table, const layout& at, std::uint32_t a, std::uint32_t b);

}  // namespace um
