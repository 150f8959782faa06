#include "core/box.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>

namespace um {
namespace {

__extension__ using int128 = __int128;

std::string to_text(const interval& i) {
  return std::to_string(i.begin) + ":" + std::to_string(i.end);
}

interval explicit_range(const interval& i, std::int64_t extent, axis along) {
  if (is_all(i)) return {0, extent};
  if (i.begin < 0 || i.end <= i.begin || i.end > extent) {
    throw std::invalid_argument("there is no range " + to_text(i) + " along " + std::string(to_text(along)) +
                                ", which has " + std::to_string(extent) + " elements");
  }
  return i;
}

interval common_range(const interval& a, const interval& b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

interval shifted_back(const interval& i, std::int64_t by) {
  return {i.begin - by, i.end - by};
}

}  // namespace

std::string to_text(const box& b) {
  std::string text;
  const auto add = [&](axis along, const interval& i) {
    if (is_all(i)) return;
    text += (text.empty() ? "[" : ", ") + std::string(to_text(along)) + " " + to_text(i);
  };
  add(axis::batch, b.batch);
  add(axis::channel, b.channel);
  add(axis::row, b.row);
  add(axis::reduction, b.reduction);
  return text.empty() ? text : text + "]";
}

interval part_of(std::int64_t extent, std::uint32_t part, std::uint32_t parts) {
  if (part >= parts || std::int64_t{parts} > extent) {
    throw std::invalid_argument("there is no part " + std::to_string(part) + " of " + std::to_string(parts) +
                                " among " + std::to_string(extent) + " elements");
  }
  if (parts == 1) return {};
  const auto border = [&](std::uint64_t p) {
    return static_cast<std::int64_t>(static_cast<int128>(extent) * static_cast<int128>(p) / parts);
  };
  return {border(part), border(std::uint64_t{part} + 1)};
}

box batch_part(std::int64_t extent, std::uint32_t part, std::uint32_t parts) {
  return {part_of(extent, part, parts), {}, {}, {}};
}

region whole_of(const dims& shape) {
  return {{0, shape.n}, {0, shape.c}, {0, shape.h}};
}

region region_of(const dims& shape, const box& b) {
  if (!is_all(b.reduction)) throw std::invalid_argument("a tensor has no range along reduction");
  return {explicit_range(b.batch, shape.n, axis::batch), explicit_range(b.channel, shape.c, axis::channel),
          explicit_range(b.row, shape.h, axis::row)};
}

box box_of(const dims& shape, const region& r) {
  const auto written = [](const interval& i, std::int64_t extent) {
    return i == interval{0, extent} ? interval{} : i;
  };
  return {written(r.batch, shape.n), written(r.channel, shape.c), written(r.row, shape.h), {}};
}

bool is_whole(const dims& shape, const region& r) {
  return r == whole_of(shape);
}

bool contains(const region& outer, const region& inner) {
  return contains(outer.batch, inner.batch) && contains(outer.channel, inner.channel) &&
         contains(outer.row, inner.row);
}

std::optional<region> intersection(const region& a, const region& b) {
  if (!overlap(a.batch, b.batch) || !overlap(a.channel, b.channel) || !overlap(a.row, b.row)) return {};
  return region{common_range(a.batch, b.batch), common_range(a.channel, b.channel),
                common_range(a.row, b.row)};
}

std::string to_text(const dims& shape, const region& r) {
  return to_text(box_of(shape, r));
}

byte_count bytes_of(const tensor& t, const region& r) {
  return static_cast<byte_count>(element_count(shape_of(r, t.shape.w))) * element_bytes(t.type);
}

tensor part_of(const tensor& t, const region& r) {
  return {t.name, shape_of(r, t.shape.w), t.type, t.role, t.order};
}

region relative_to(const region& r, const region& within) {
  return {shifted_back(r.batch, within.batch.begin), shifted_back(r.channel, within.channel.begin),
          shifted_back(r.row, within.row.begin)};
}

namespace {

// One of three nested loops over a region in memory order. The innermost counts bytes.
struct loop_level {
  byte_count begin = 0, size = 0, extent = 0;
};

std::array<loop_level, 3> loop_levels_of(const tensor& t, const region& r) {
  const auto cut = [](const interval& i, std::int64_t extent, byte_count each) {
    const auto number = [&](std::int64_t value) { return static_cast<byte_count>(value) * each; };
    return loop_level{number(i.begin), number(i.size()), number(extent)};
  };
  const byte_count columns = static_cast<byte_count>(t.shape.w), element = element_bytes(t.type);
  const loop_level batch = cut(r.batch, t.shape.n, 1);
  if (t.order == memory_order::nchw) {
    return {cut(r.row, t.shape.h, columns * element), cut(r.channel, t.shape.c, 1), batch};
  }
  return {cut(r.channel, t.shape.c, element), cut(r.row, t.shape.h, columns), batch};
}

strided_runs nested_runs(const std::array<loop_level, 3>& l) {
  const byte_count pitch = l[0].extent, slice = l[0].extent * l[1].extent;
  return {
      l[0].begin + l[1].begin * pitch + l[2].begin * slice, l[0].size, l[1].size, l[2].size, pitch, slice};
}

// Merges rows that are contiguous in every tensor, and slices likewise.
void merge_contiguous_runs(std::span<strided_runs> sides) {
  const auto everywhere = [&](auto&& holds) { return std::ranges::all_of(sides, holds); };
  const byte_count height = sides[0].height, depth = sides[0].depth;
  if (height == 1 || everywhere([](const strided_runs& s) { return s.width == s.pitch; })) {
    const bool one =
        depth == 1 || everywhere([&](const strided_runs& s) { return s.width * height == s.slice; });
    for (strided_runs& s : sides) {
      s.width *= one ? height * depth : height;
      s.height = one ? 1 : depth;
      s.pitch = one ? s.width : s.slice;
      s.depth = 1;
      s.slice = s.pitch * s.height;
    }
  } else if (everywhere([](const strided_runs& s) { return s.height * s.pitch == s.slice; })) {
    for (strided_runs& s : sides) {
      s.height *= depth;
      s.depth = 1;
      s.slice = s.pitch * s.height;
    }
  }
}

}  // namespace

strided_runs strided_runs_of(const tensor& t, const region& r) {
  strided_runs runs = nested_runs(loop_levels_of(t, r));
  merge_contiguous_runs({&runs, 1});
  return runs;
}

std::pair<strided_runs, strided_runs> strided_runs_of(const tensor& a, const region& in_a, const tensor& b,
                                                      const region& in_b) {
  std::array<strided_runs, 2> sides{nested_runs(loop_levels_of(a, in_a)),
                                    nested_runs(loop_levels_of(b, in_b))};
  merge_contiguous_runs(sides);
  return {sides[0], sides[1]};
}

std::vector<range> runs_of(const tensor& t, const region& r) {
  const strided_runs l = strided_runs_of(t, r);
  std::vector<range> runs;
  runs.reserve(l.height * l.depth);
  for (byte_count z = 0; z < l.depth; ++z) {
    for (byte_count y = 0; y < l.height; ++y) {
      runs.push_back({l.offset + z * l.slice + y * l.pitch, l.width});
    }
  }
  return runs;
}

range batch_range(const tensor& t, const box& part) {
  const region r = region_of(t.shape, box{part.batch, {}, {}, {}});
  return {strided_runs_of(t, r).offset, bytes_of(t, r)};
}

bool is_dense(const tensor& t, const region& r) {
  const strided_runs l = strided_runs_of(t, r);
  return l.height * l.depth == 1;
}

}  // namespace um
