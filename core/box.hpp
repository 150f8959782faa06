// Parts of operators and tensors. A box gives ranges along several axes, as a plan writes them. A region
// gives the elements of one tensor that a box selects. A region can be stored by itself as a small dense
// tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/names.hpp"
#include "core/tensor.hpp"

namespace um {

// The axes of a box: a tensor's first three extents, and the channels that a convolution sums over (forward:
// C, backward_data: K).
enum class axis : std::uint8_t { batch, channel, row, reduction };
template <>
inline constexpr std::array enum_names<axis>{"batch"sv, "channel"sv, "row"sv, "reduction"sv};

// Elements [begin, end) along an axis.
struct interval {
  std::int64_t begin = 0, end = 0;
  constexpr std::int64_t size() const { return end - begin; }
  friend bool operator==(const interval&, const interval&) = default;
  friend auto operator<=>(const interval&, const interval&) = default;
};
// Whether the interval is {0, 0}, which means the whole axis in a plan.
constexpr bool is_all(const interval& i) {
  return i == interval{};
}
constexpr bool overlap(const interval& a, const interval& b) {
  return a.begin < b.end && b.begin < a.end;
}
constexpr bool contains(const interval& outer, const interval& inner) {
  return outer.begin <= inner.begin && inner.end <= outer.end;
}

struct box {
  interval batch, channel, row, reduction;
  friend bool operator==(const box&, const box&) = default;
  friend auto operator<=>(const box&, const box&) = default;
};
constexpr bool is_whole(const box& b) {
  return b == box{};
}
// For example "[batch 0:8, row 0:14]"; "" if the box is whole.
std::string to_text(const box& b);

// Part number `part` of `parts` of an axis: [extent * part / parts, extent * (part + 1) / parts). Sizes
// differ by at most one, and parts of a multiple of `parts` nest. Returns {0, 0}, the whole axis, if `parts`
// is 1. Throws std::invalid_argument if there is no such part.
interval part_of(std::int64_t extent, std::uint32_t part, std::uint32_t parts);
// That part of the batch as a box.
box batch_part(std::int64_t extent, std::uint32_t part, std::uint32_t parts);

// A rectangular part of one tensor: every range is explicit and none is empty. Columns are never cut.
struct region {
  interval batch, channel, row;
  friend bool operator==(const region&, const region&) = default;
  friend auto operator<=>(const region&, const region&) = default;
};
region whole_of(const dims& shape);
// The region that a box selects. Throws std::invalid_argument, naming the axis, for a range that is empty or
// exceeds the extent, and for a range of reduction, which no tensor has.
region region_of(const dims& shape, const box& b);
// The box that selects a region; ranges that cover their axis are left out.
box box_of(const dims& shape, const region& r);

bool is_whole(const dims& shape, const region& r);
bool contains(const region& outer, const region& inner);
std::optional<region> intersection(const region& a, const region& b);
std::string to_text(const dims& shape, const region& r);

// `columns`: the last extent of the tensor.
constexpr dims shape_of(const region& r, std::int64_t columns) {
  return {r.batch.size(), r.channel.size(), r.row.size(), columns};
}
byte_count bytes_of(const tensor& t, const region& r);
// The part as a dense tensor of its own, in the same memory order.
tensor part_of(const tensor& t, const region& r);
// The coordinates of `r` relative to the first element of `within`, which contains it.
region relative_to(const region& r, const region& within);

// A range of bytes [offset, offset + bytes) of a tensor or an arena.
struct range {
  byte_count offset = 0, bytes = 0;
  friend bool operator==(const range&, const range&) = default;
};
// The contiguous runs of bytes of a region, in order, relative to the tensor's first byte.
std::vector<range> runs_of(const tensor& t, const region& r);
// The bytes of a part of the batch, which are contiguous. Throws as region_of() does.
range batch_range(const tensor& t, const box& part);
// Runs of equal length, as one pitched copy moves them: `depth` slices of `height` rows of `width` bytes.
struct strided_runs {
  byte_count offset = 0;  // offset of the first run
  byte_count width = 0, height = 1, depth = 1;
  byte_count pitch = 0,
             slice = 0;  // bytes from one row to the next; from one slice to the next, a multiple of it
};
strided_runs strided_runs_of(const tensor& t, const region& r);
// The runs of two regions of equal shape in two tensors of one memory order. Runs are as long as both regions
// allow.
std::pair<strided_runs, strided_runs> strided_runs_of(const tensor& a, const region& in_a, const tensor& b,
                                                      const region& in_b);
// Whether a region is one run of bytes: then it is a dense tensor in place.
bool is_dense(const tensor& t, const region& r);

}  // namespace um
