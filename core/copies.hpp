// Tracks, action by action, which copies of each part of each tensor are valid; used by verify, lifetimes and
// lower. A cell has one value; its home and any number of strips may hold it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/strips.hpp"

namespace um {

// A region as it lies in one strip.
struct part_of_strip {
  std::uint32_t strip = 0;
  region where;
};

class copy_tracker {
 public:
  using finding = std::optional<std::string>;  // why an action is wrong, or nothing

  // References are kept. Tensors that persist hold their value where the plan has them at the start.
  copy_tracker(const graph& g, const memory_plan& plan, const std::vector<strip_layout>& strips);

  // Each returns why the action is wrong; the state is then undefined. `cells`: those that a copy has to be
  // made of, if it is not null.
  finding apply(const prefetch& x, std::vector<std::uint32_t>* cells = nullptr);
  finding apply(const evict& x, std::vector<std::uint32_t>* cells = nullptr);
  finding apply(const discard& x);

  // The parts from which a compute reads a region: one part if one strip holds all of it, else the parts that
  // cover it. Empty if some of the value is not where kernels can read it.
  std::vector<part_of_strip> sources_of(tensor_id t, const region& r) const;
  // The strip to which a compute writes a region. All other copies become stale.
  part_of_strip write(tensor_id t, const region& r);

  bool is_at_home(tensor_id t, std::uint32_t cell) const { return at_home_[t][cell]; }
  // Whether a kernel can read a valid copy, over the link for tensors on the host.
  bool is_readable_by_kernels(tensor_id t, std::uint32_t cell) const;
  // Whether any cell of a region is held in that strip, valid or not.
  bool holds_any(tensor_id t, std::uint32_t strip, const region& r) const;
  // Whether there is a stale copy.
  bool is_stale(tensor_id t, std::uint32_t cell) const;

  std::vector<std::uint32_t> cells_in(tensor_id t, const region& r) const;
  std::string describe(tensor_id t, std::uint32_t cell) const;

 private:
  enum class state : std::uint8_t { absent, stale, valid };

  template <class F>
  finding for_cells(tensor_id t, const region& r, F&& f);
  // Calls f(state on the device, cell) for the cells of a movement between device and home copy.
  template <class Movement, class F>
  finding for_moved_cells(const Movement& x, const char* verb, F&& f);
  finding not_movable(tensor_id t, const char* verb) const;
  bool holds(tensor_id t, std::uint32_t strip, const region& r) const;
  finding strip_of(tensor_id t, const region& r, std::uint32_t& strip) const;

  const graph& g_;
  const memory_plan& plan_;
  const std::vector<strip_layout>& strips_;
  std::vector<std::vector<bool>> at_home_;                  // per tensor, per cell
  std::vector<std::vector<std::vector<state>>> on_device_;  // per tensor, per strip, per cell
};

}  // namespace um
