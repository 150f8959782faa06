// How a plan stores the parts of a tensor on the device. A strip is a dense tensor of one cross-section: the
// whole outer axis (the first axis in memory order with more than one element) and a range of each other
// axis. Along the outer axis it consists of segments, which are loaded and released one by one.
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
  axis outer = axis::batch;    // the axis that has segments
  std::vector<region> strips;  // regions that span the whole outer axis; at least one
  std::vector<std::int64_t>
      segment_borders;  // borders of segments along the outer axis, including 0 and the extent
  cell_grid grid;

  std::uint32_t segment_count() const { return static_cast<std::uint32_t>(segment_borders.size() - 1); }
  // The segments [first, second) that a region overlaps.
  std::pair<std::uint32_t, std::uint32_t> segments_in(const region& r) const;
  // The cells that a region covers.
  std::vector<std::uint32_t> cells_of(const region& r) const {
    return cell_indices_of(grid, cells_in(grid, r));
  }
  // The region of one segment of a strip.
  region segment_region(std::uint32_t strip, std::uint32_t segment) const;
  // Index of the strip with this region's cross-section or, if there is none, of the whole strip. Throws
  // std::invalid_argument if there is neither.
  std::uint32_t find_strip(const region& r) const;
};

// The layout of each tensor. A tensor has one whole strip if it is managed, twinned or on the host, if it
// survives on the device, or if a compute or a move uses its whole cross-section while parts of one are on
// the device. Otherwise it has one strip for each cross-section that a compute writes or a move names. Strips
// may overlap, as rows with a halo do. If no strip holds an operand densely, the compute gathers or scatters
// it (lower.hpp).
std::vector<strip_layout> make_strip_layouts(const graph& g, const memory_plan& plan);

}  // namespace um
