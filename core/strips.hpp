// How the parts of a tensor lie on the device in a plan. A strip is a dense tensor of one cross-section: all
// of the outer axis, the first in memory order that has more than one element, and a range of each other
// axis. Along the outer axis it consists of segments, which come and go one by one.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/memory_plan.hpp"

namespace um {

axis outer_axis(const tensor& t);
const interval& range_along(const region& r, axis along);
interval& range_along(region& r, axis along);

struct strip_layout {
  axis outer = axis::batch;
  std::vector<region> strips;          // all of the outer axis; never empty
  std::vector<std::int64_t> segments;  // borders along the outer axis, 0 and the extent among them
  cell_grid cells;

  std::uint32_t segment_count() const { return static_cast<std::uint32_t>(segments.size() - 1); }
  // The segments that a region meets: [first, second).
  std::pair<std::uint32_t, std::uint32_t> segments_in(const region& r) const;
  // The cells that a region covers.
  std::vector<std::uint32_t> cells_of(const region& r) const {
    return cell_indices_of(cells, cells_in(cells, r));
  }
  // The part of a strip that is one segment.
  region segment_of(std::uint32_t strip, std::uint32_t segment) const;
  // The strip of exactly this region's cross-section, or the whole one where there is no other. Throws
  // std::invalid_argument if there is neither.
  std::uint32_t strip_of(const region& r) const;
};

// One per tensor. A tensor has one strip, the whole, if it is managed, twinned or on the host, survives on
// the device, or if a compute or a move takes its whole cross-section while parts of one are there; else one
// for each cross-section that a compute writes or a move names. Strips may hold the same elements: rows with
// a halo do. A compute whose operand is dense in no strip gathers or scatters it (lower.hpp).
std::vector<strip_layout> strips_of(const graph& g, const memory_plan& plan);

}  // namespace um
