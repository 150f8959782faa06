#include "core/box.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>

namespace um {
namespace {

__extension__ using wide = __int128;

std::string to_text(const interval& i) {
  return std::to_string(i.begin) + ":" + std::to_string(i.end);
}

interval resolved(const interval& i, std::int64_t extent, axis along) {
  if (is_all(i)) return {0, extent};
  if (i.begin < 0 || i.end <= i.begin || i.end > extent) {
    throw std::invalid_argument("there is no range " + to_text(i) + " along " + std::string(to_text(along)) +
                                ", which has " + std::to_string(extent) + " elements");
  }
  return i;
}

interval shared(const interval& a, const interval& b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

interval shifted(const interval& i, std::int64_t by) {
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

interval part_of(std::int64_t extent, std::uint32_t part, std::uint32_t of) {
  if (part >= of || std::int64_t{of} > extent) {
    throw std::invalid_argument("there is no part " + std::to_string(part) + " of " + std::to_string(of) +
                                " among " + std::to_string(extent) + " elements");
  }
  if (of == 1) return {};
  const auto border = [&](std::uint64_t p) {
    return static_cast<std::int64_t>(static_cast<wide>(extent) * static_cast<wide>(p) / of);
  };
  return {border(part), border(std::uint64_t{part} + 1)};
}

box batch_part(std::int64_t extent, std::uint32_t part, std::uint32_t of) {
  return {part_of(extent, part, of), {}, {}, {}};
}

region whole_of(const dims& shape) {
  return {{0, shape.n}, {0, shape.c}, {0, shape.h}};
}

region region_of(const dims& shape, const box& b) {
  if (!is_all(b.reduction)) throw std::invalid_argument("a tensor has no range along reduction");
  return {resolved(b.batch, shape.n, axis::batch), resolved(b.channel, shape.c, axis::channel),
          resolved(b.row, shape.h, axis::row)};
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
  if (!meet(a.batch, b.batch) || !meet(a.channel, b.channel) || !meet(a.row, b.row)) return {};
  return region{shared(a.batch, b.batch), shared(a.channel, b.channel), shared(a.row, b.row)};
}

std::string to_text(const dims& shape, const region& r) {
  return to_text(box_of(shape, r));
}

byte_count bytes_of(const tensor& t, const region& r) {
  return static_cast<byte_count>(elements(shape_of(r, t.shape.w))) * size_of(t.type);
}

tensor part_of(const tensor& t, const region& r) {
  return {t.name, shape_of(r, t.shape.w), t.type, t.use, t.order};
}

region relative_to(const region& r, const region& within) {
  return {shifted(r.batch, within.batch.begin), shifted(r.channel, within.channel.begin),
          shifted(r.row, within.row.begin)};
}

namespace {

// One of three nested loops over a region in memory order; bytes for the innermost.
struct level {
  byte_count begin = 0, size = 0, extent = 0;
};

std::array<level, 3> levels_of(const tensor& t, const region& r) {
  const auto cut = [](const interval& i, std::int64_t extent, byte_count each) {
    const auto number = [&](std::int64_t value) { return static_cast<byte_count>(value) * each; };
    return level{number(i.begin), number(i.size()), number(extent)};
  };
  const byte_count columns = static_cast<byte_count>(t.shape.w), element = size_of(t.type);
  const level batch = cut(r.batch, t.shape.n, 1);
  if (t.order == memory_order::nchw) {
    return {cut(r.row, t.shape.h, columns * element), cut(r.channel, t.shape.c, 1), batch};
  }
  return {cut(r.channel, t.shape.c, element), cut(r.row, t.shape.h, columns), batch};
}

layout_of_runs nested(const std::array<level, 3>& l) {
  const byte_count pitch = l[0].extent, slice = l[0].extent * l[1].extent;
  return {
      l[0].begin + l[1].begin * pitch + l[2].begin * slice, l[0].size, l[1].size, l[2].size, pitch, slice};
}

// Merges rows that are contiguous in every tensor into one, and slices likewise.
void shorten(std::span<layout_of_runs> sides) {
  const auto everywhere = [&](auto&& holds) { return std::ranges::all_of(sides, holds); };
  const byte_count height = sides[0].height, depth = sides[0].depth;
  if (height == 1 || everywhere([](const layout_of_runs& s) { return s.width == s.pitch; })) {
    const bool one =
        depth == 1 || everywhere([&](const layout_of_runs& s) { return s.width * height == s.slice; });
    for (layout_of_runs& s : sides) {
      s.width *= one ? height * depth : height;
      s.height = one ? 1 : depth;
      s.pitch = one ? s.width : s.slice;
      s.depth = 1;
      s.slice = s.pitch * s.height;
    }
  } else if (everywhere([](const layout_of_runs& s) { return s.height * s.pitch == s.slice; })) {
    for (layout_of_runs& s : sides) {
      s.height *= depth;
      s.depth = 1;
      s.slice = s.pitch * s.height;
    }
  }
}

}  // namespace

layout_of_runs pitches_of(const tensor& t, const region& r) {
  layout_of_runs runs = nested(levels_of(t, r));
  shorten({&runs, 1});
  return runs;
}

std::pair<layout_of_runs, layout_of_runs> pitches_of(const tensor& a, const region& in_a, const tensor& b,
                                                     const region& in_b) {
  std::array<layout_of_runs, 2> sides{nested(levels_of(a, in_a)), nested(levels_of(b, in_b))};
  shorten(sides);
  return {sides[0], sides[1]};
}

std::vector<range> runs_of(const tensor& t, const region& r) {
  const layout_of_runs l = pitches_of(t, r);
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
  return {pitches_of(t, r).offset, bytes_of(t, r)};
}

bool is_dense(const tensor& t, const region& r) {
  const layout_of_runs l = pitches_of(t, r);
  return l.height * l.depth == 1;
}

}  // namespace um
