#include "simulator/touch_order.hpp"

#include <algorithm>
#include <type_traits>

namespace um {
namespace {

constexpr byte_count bytes_per_thread = 16;
constexpr byte_count threads_per_multiprocessor = 2048;

using enum touch_phase;
using phases = std::vector<touch_phase>;

byte_count size_of(const graph& g, tensor_id t) {
  return bytes_of(g.tensors[t]);
}

// y = x w: the larger of x and w is streamed, and y with x.
phases linear_phases(const graph& g, const op& o) {
  const bool by_rows = size_of(g, o.in[0]) > size_of(g, o.in[1]);
  phases p(o.in.size() + o.out.size(), every_wave);
  p[by_rows ? 0 : 1] = streamed;
  p[o.in.size()] = by_rows ? streamed : after_waves;
  return p;
}

// dx = dy w, operands w, dy -> dx.
phases linear_data_phases(const graph& g, const op& o) {
  const bool by_rows = size_of(g, o.out[0]) > size_of(g, o.in[0]);
  return by_rows ? phases{every_wave, streamed, streamed} : phases{streamed, every_wave, after_waves};
}

// dw = x dy, operands x, dy -> dw [, db].
phases linear_filter_phases(const graph& g, const op& o) {
  const bool by_rows = size_of(g, o.in[0]) > size_of(g, o.out[0]);
  phases p = by_rows ? phases{streamed, streamed, after_waves} : phases{every_wave, every_wave, streamed};
  if (o.out.size() > 1) p.push_back(after_waves);
  return p;
}

phases convolution_phases(const op& o) {
  phases p(o.in.size() + o.out.size(), every_wave);
  p[0] = p[o.in.size()] = streamed;
  return p;
}

}  // namespace

std::vector<touch_phase> phases_of(const graph& g, const op& o) {
  return std::visit(
      overloaded{[&](const convolution&) { return convolution_phases(o); },
                 [](const convolution_backward_data&) { return phases{every_wave, streamed, streamed}; },
                 [](const convolution_backward_filter&) { return phases{streamed, streamed, after_waves}; },
                 [&](const linear&) { return linear_phases(g, o); },
                 [&](const linear_backward_data&) { return linear_data_phases(g, o); },
                 [&](const linear_backward_filter&) { return linear_filter_phases(g, o); },
                 [&](const auto&) { return phases(o.in.size() + o.out.size(), streamed); }},
      o.attributes.value);
}

grid_kind grid_of(const op& o) {
  return std::visit(
      []<class T>(const T&) {
        constexpr bool sums_channels =
            std::is_same_v<T, bias_backward> || std::is_same_v<T, relu_bias_backward> ||
            std::is_same_v<T, batch_norm> || std::is_same_v<T, batch_norm_backward>;
        return sums_channels ? grid_kind::resident : grid_kind::waves;
      },
      o.attributes.value);
}

unsigned extra_input_passes(const op& o) {
  return std::visit(
      []<class T>(const T&) {
        return std::is_same_v<T, batch_norm> || std::is_same_v<T, batch_norm_backward> ? 1U : 0U;
      },
      o.attributes.value);
}

byte_count wave_bytes(const machine& on) {
  return round_up(on.multiprocessors * threads_per_multiprocessor * bytes_per_thread, managed_block);
}

std::vector<range> wave_of(const std::vector<range>& runs, std::uint64_t i, std::uint64_t n) {
  byte_count total = 0;
  for (const range& r : runs) total += r.bytes;
  const auto cut = [&](std::uint64_t k) -> byte_count {
    if (k == 0 || k == n) return k == 0 ? 0 : total;
    const byte_count at = total / n * k + total % n * k / n;
    if (runs.size() != 1) return at;
    const byte_count block = round_down(runs.front().offset + at, managed_block);
    return std::max(block, runs.front().offset) - runs.front().offset;
  };
  const byte_count begin = cut(i), end = cut(i + 1);
  std::vector<range> part;
  byte_count at = 0;
  for (const range& r : runs) {
    const byte_count from = std::max(begin, at), to = std::min(end, at + r.bytes);
    if (from < to) part.push_back({r.offset + (from - at), to - from});
    at += r.bytes;
    if (at >= end) break;
  }
  return part;
}

}  // namespace um
