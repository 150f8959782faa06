#include "planners/ooc_model.hpp"

#include <algorithm>

namespace um {
namespace {

nanoseconds repeated_time(std::uint64_t count, nanoseconds each) {
  return static_cast<nanoseconds>(count) * each;
}

// The next number of parts with a smaller largest part; 0 if there is none.
std::uint32_t next_count(std::uint32_t count, std::uint32_t extent) {
  const std::uint32_t size = (extent + count - 1) / count;
  return size <= 1 ? 0 : (extent + size - 2) / (size - 1);
}

struct timed_division {
  division by;
  std::optional<nanoseconds> time;
};

void try_counts(timed_division& best, coordinate along, const division& most, const division_time& time) {
  division tried = best.by;
  for (std::uint32_t count = 1; count != 0; count = next_count(count, most.*along)) {
    tried.*along = count;
    const auto t = time(tried);
    if (t && (!best.time || *t < *best.time)) best = {tried, t};
  }
}

}  // namespace

nanoseconds forward_time(const forward_part& t, const division& d) {
  const std::uint64_t parts = std::uint64_t{d.n} * d.yc * d.h;
  const std::uint64_t sums = d.xc;
  const nanoseconds inner = t.pre + t.conv + repeated_time(sums - 1, std::max(t.pre, t.conv));
  if (inner < t.off) return inner + repeated_time(parts, t.off);
  if (t.pre < t.conv) return t.pre + repeated_time(parts * sums, t.conv) + t.off_last;
  return repeated_time(parts * sums, t.pre) + t.conv_last + t.off_last;
}

nanoseconds backward_time(const backward_part& t, const division& d) {
  const std::uint64_t outer = std::uint64_t{d.n} * d.xc * d.h;
  const nanoseconds in =
      repeated_time(outer, t.pre1 + repeated_time(d.yc, t.pre2)) + t.conv_last + t.off1_last + t.off2_last;
  const nanoseconds computing =
      t.pre1 + t.pre2 + repeated_time(outer * d.yc, t.conv) + t.off1_last + t.off2_last;
  const nanoseconds out = t.pre1 + repeated_time(d.yc, t.pre2 + t.conv) +
                          repeated_time(outer, repeated_time(d.yc, t.off1) + t.off2);
  return std::max({in, computing, out});
}

nanoseconds part_time(nanoseconds whole, nanoseconds bias, double share) {
  return bias + static_cast<nanoseconds>(static_cast<double>(std::max<nanoseconds>(whole - bias, 0)) * share);
}

double share_of_channels(std::int64_t part, std::int64_t all, bool of_convolution) {
  const auto counted = [&](std::int64_t channels) {
    return static_cast<double>(of_convolution ? (channels + 31) / 32 * 32 : channels);
  };
  return counted(part) / counted(all);
}

std::optional<division> divide(const division& most, std::span<const coordinate> order,
                               const division_time& time) {
  timed_division best{{}, time({})};
  for (const coordinate along : order) try_counts(best, along, most, time);
  if (best.time) return best.by;
  for (std::size_t fine = 0; fine < order.size() && !best.time; ++fine) {
    best.by.*order[fine] = most.*order[fine];
    best.time = time(best.by);
    for (std::size_t i = fine + 1; i < order.size() && !best.time; ++i)
      try_counts(best, order[i], most, time);
  }
  if (!best.time) return std::nullopt;
  for (const coordinate along : order) try_counts(best, along, most, time);
  return best.by;
}

}  // namespace um
