// Tracks, action by action, which copies of each part of each tensor are valid; used by verify, lifetimes and
// lower. A cell has one value; the host and any number of strips may hold a copy of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/strips.hpp"

namespace um {

// A region of a tensor inside one of its strips.
struct strip_region {
  std::uint32_t strip = 0;  // number of the strip
  region where;
};

class copy_tracker {
 public:
  using error = std::optional<std::string>;  // the reason why an action is invalid; nothing if it is valid

  // Keeps references. At the start, tensors that persist have their value where the plan puts it.
  copy_tracker(const graph& g, const memory_plan& plan, const std::vector<strip_layout>& strips);

  // Apply one action. If it is invalid they return the reason, and the state is undefined afterwards.
  // `cells`, if not null, receives the cells that must be copied.
  error apply(const prefetch& x, std::vector<std::uint32_t>* cells = nullptr);
  error apply(const evict& x, std::vector<std::uint32_t>* cells = nullptr);
  error apply(const discard& x);

  // The strips from which a compute reads a region: one if one strip holds all of it, otherwise those that
  // together cover it. Empty if kernels cannot reach some of the value.
  std::vector<strip_region> sources_of(tensor_id t, const region& r) const;
  // The strip to which a compute writes a region. Makes all other copies stale.
  strip_region write(tensor_id t, const region& r);

  bool has_host_copy(tensor_id t, std::uint32_t cell) const { return has_host_copy_[t][cell]; }
  // Whether kernels can read a valid copy of the cell; copies in host memory count if kernels can access them
  // over the link.
  bool is_readable_by_kernels(tensor_id t, std::uint32_t cell) const;
  // Whether that strip holds any cell of a region, valid or not.
  bool holds_any(tensor_id t, std::uint32_t strip, const region& r) const;
  // Whether a stale copy of the cell exists.
  bool is_stale(tensor_id t, std::uint32_t cell) const;

  std::vector<std::uint32_t> cells_in(tensor_id t, const region& r) const { return strips_[t].cells_of(r); }
  std::string describe(tensor_id t, std::uint32_t cell) const;

 private:
  enum class state : std::uint8_t { absent, stale, valid };

  error for_each_cell(tensor_id t, const region& r, auto&& f);
  // Calls f(state on the device, cell) for each cell of a movement between device and host copy.
  template <class Movement, class F>
  error for_each_moved_cell(const Movement& x, const char* participle, F&& f);
  error why_not_movable(tensor_id t, const char* participle) const;
  bool holds(tensor_id t, std::uint32_t strip, const region& r) const;
  error find_strip(tensor_id t, const region& r, std::uint32_t& strip) const;

  const graph& g_;
  const memory_plan& plan_;
  const std::vector<strip_layout>& strips_;
  std::vector<std::vector<bool>> has_host_copy_;  // per tensor, per cell: whether the host copy is valid
  std::vector<std::vector<std::vector<state>>> device_states_;  // per tensor, per strip, per cell
};

}  // namespace um
