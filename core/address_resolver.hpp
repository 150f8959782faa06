// Finds the addresses of operands, and the copies between memories that actions require.
#pragma once

#include <cstdint>
#include <vector>

#include "core/layout.hpp"
#include "core/machine.hpp"
#include "core/managed_map.hpp"

namespace um {

// Offsets of tensors in pinned host memory, and the address of each tensor at the start and end of an
// iteration.
struct home_addresses {
  std::vector<byte_count> pinned_offset;  // per tensor; meaningful for tensors in pinned host memory
  byte_count pinned_bytes = 0;
  std::vector<address> at_start;  // per tensor; meaningful for tensors that persist
  std::vector<address> at_end;    // per tensor; meaningful for tensors that survive
};

// A twin has an offset only if the plan copies to it or the tensor starts there.
home_addresses home_addresses_of(const graph& g, const memory_plan& plan, const lifetime_table& table,
                                 const layout& at);

// One operand of a compute: its region, and its address as a dense tensor of that shape.
struct operand {
  access accessed;
  address location;  // address of its first byte
};

// A range of the managed arena that a prefetch, discard or advice applies to. For twinned tensors also the
// offset of the twin in pinned memory.
struct managed_target {
  range device_range;
  byte_count pinned_offset = 0;
};

// What makes a copy: a copy engine (one cudaMemcpy3DAsync) or a kernel.
enum class copier : std::uint8_t { engine, kernel };

// A copy of `depth` slices of `height` rows of `width` bytes. A pitch is the distance between the starts of
// two rows; a slice stride, a multiple of it, that between two slices.
struct pitched_copy {
  address from, to;
  byte_count width = 0, height = 1, depth = 1;
  byte_count from_pitch = 0, to_pitch = 0, from_slice = 0, to_slice = 0;
  copier made_by = copier::engine;
};
constexpr byte_count bytes_of(const pitched_copy& c) {
  return c.width * c.height * c.depth;
}
// A copy of a region between two dense tensors of one memory order, given the addresses of both tensors.
pitched_copy make_copy(const address& from_base, const tensor& from, const region& in_from,
                       const address& to_base, const tensor& to, const region& in_to);

// Copies that gather or scatter an operand that is not dense. Kernels make them, since kernels can access
// managed and pinned memory.
struct operand_copies {
  std::vector<pitched_copy> before, after;  // copies before and after the kernels
};

class address_resolver {
 public:
  // Keeps references to all arguments.
  address_resolver(const graph& g, const lifetime_table& table, const layout& at, const managed_map& managed,
                   const home_addresses& home, const machine& on);

  // `workspace`: offset of the workspace of the compute.
  address address_of(const access& a, const operand_use& u, byte_count workspace) const;
  operand_copies copies_for(const operand& o, const operand_use& u) const;
  // Copies between a part of a staged tensor and its host copy. A copy engine makes them unless rows are
  // short.
  pitched_copy copy_from_host(tensor_id t, const strip_use& moved) const {
    return staged_copy(t, moved, true);
  }
  pitched_copy copy_to_host(tensor_id t, const strip_use& moved) const {
    return staged_copy(t, moved, false);
  }
  // Copies between cells of a twinned tensor and its twin; adjacent runs are merged.
  std::vector<managed_target> twin_copy_ranges(tensor_id t, const std::vector<std::uint32_t>& cells) const;

 private:
  region strip_region(tensor_id t, const strip_use& u) const { return table_.strips[t].strips[u.part.strip]; }
  address strip_base(tensor_id t, const strip_use& u) const;
  pitched_copy staged_copy(tensor_id t, const strip_use& moved, bool to_device) const;

  const graph& g_;
  const lifetime_table& table_;
  const layout& layout_;
  const managed_map& managed_;
  const home_addresses& home_addresses_;
  const machine& machine_;
};

}  // namespace um
