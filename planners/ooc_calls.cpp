#include "planners/ooc_calls.hpp"

#include <algorithm>
#include <stdexcept>

namespace um {
namespace {

nanoseconds repeated_time(std::uint64_t count, nanoseconds each) {
  return static_cast<nanoseconds>(count) * each;
}

// The next larger number of parts whose largest part is smaller; 0 if there is none.
std::uint32_t next_part_count(std::uint32_t count, std::uint32_t extent) {
  const std::uint32_t size = (extent + count - 1) / count;
  return size <= 1 ? 0 : (extent + size - 2) / (size - 1);
}

struct timed_division {
  division by;
  std::optional<nanoseconds> time;
};

void try_part_counts(timed_division& best, coordinate along, const division& most,
                     const division_time& time) {
  division tried = best.by;
  for (std::uint32_t count = 1; count != 0; count = next_part_count(count, most.*along)) {
    tried.*along = count;
    const auto t = time(tried);
    if (t && (!best.time || *t < *best.time)) best = {tried, t};
  }
}

using kind = ooc_call::kind;

bool is_gradient_of_convolution(const op& o) {
  return has_kind<convolution_backward_data, convolution_backward_filter, bias_backward>(o);
}

bool reads_tensor(const op& o, tensor_id t) {
  return std::ranges::find(o.in, t) != o.in.end();
}

// The input of a convolution's gradient operator that is the gradient of the convolution's output (dy).
tensor_id gradient_input(const op& o) {
  return has_kind<bias_backward>(o) ? o.in[0] : o.in[1];
}

op_id forward_end(const graph& g, op_id begin) {
  op_id end = begin + 1;
  if (end < g.ops.size() && has_kind<relu>(g.ops[end]) && reads_tensor(g.ops[end], g.ops[end - 1].out[0]))
    ++end;
  if (end < g.ops.size() && has_kind<max_pool>(g.ops[end]) && reads_tensor(g.ops[end], g.ops[end - 1].out[0]))
    ++end;
  return end;
}

// End of the backward call that starts at `begin`. `begin` itself if the gradients of pool and ReLU are not
// followed by a convolution's gradient.
op_id backward_end(const graph& g, op_id begin) {
  op_id at = begin;
  const auto follows = [&] { return at == begin || reads_tensor(g.ops[at], g.ops[at - 1].out[0]); };
  if (at < g.ops.size() && has_kind<max_pool_backward>(g.ops[at])) ++at;
  if (at < g.ops.size() && has_kind<relu_backward, relu_bias_backward>(g.ops[at]) && follows()) ++at;
  if (at == g.ops.size() || !is_gradient_of_convolution(g.ops[at]) || !follows()) return begin;
  const tensor_id dy = gradient_input(g.ops[at]);
  while (at < g.ops.size() && is_gradient_of_convolution(g.ops[at]) && gradient_input(g.ops[at]) == dy) ++at;
  return at;
}

// The range of an operator's box that each channel coordinate cuts; nullptr: none.
struct cut_ranges {
  interval box::* xc = nullptr;
  interval box::* yc = &box::channel;
};
cut_ranges ranges_of(const op& o) {
  if (has_kind<convolution_backward_data>(o)) return {&box::channel, &box::reduction};
  if (has_kind<convolution, convolution_backward_filter>(o)) return {&box::reduction, &box::channel};
  return {};
}

// The operator whose extents the division cuts.
const op& divided_operator(const graph& g, const ooc_call& call) {
  if (call.what != kind::backward) return g.ops[call.begin];
  for (op_id o = call.begin; o < call.end; ++o) {
    if (is_gradient_of_convolution(g.ops[o])) return g.ops[o];
  }
  return g.ops[call.begin];
}
const op* pool_of(const graph& g, const ooc_call& call) {
  const op& last = g.ops[call.end - 1];
  return call.what == kind::forward && has_kind<max_pool>(last) ? &last : nullptr;
}

interval part_rows(std::int64_t extent, const division& d, const part_index& at) {
  return d.h == 1 ? interval{0, extent} : part_of(extent, at.h, d.h);
}

interval rows_of(const graph& g, const ooc_call& call, const op& o, const division& d, const part_index& at);

// Rows of dy that the gradients of a convolution read.
interval rows_of_gradient(const graph& g, const ooc_call& call, const division& d, const part_index& at) {
  interval all{0, 0};
  for (op_id i = call.begin; i < call.end; ++i) {
    const op& o = g.ops[i];
    if (!is_gradient_of_convolution(o)) continue;
    box part;
    part.row = rows_of(g, call, o, d, at);
    const std::size_t which = has_kind<bias_backward>(o) ? 0 : 1;
    const interval rows = accesses_of(g, o, part)[which].where.row;
    all = is_all(all) ? rows : interval{std::min(all.begin, rows.begin), std::max(all.end, rows.end)};
  }
  return all;
}

interval rows_of(const graph& g, const ooc_call& call, const op& o, const division& d, const part_index& at) {
  const std::int64_t extent = iteration_domain(g, o).row.end;
  const op* pool = pool_of(g, call);
  if (d.h > 1 && pool != nullptr && pool != &o) {
    const std::int64_t stride = std::get<max_pool>(pool->attributes.value).stride;
    const interval windows = part_rows(iteration_domain(g, *pool).row.end, d, at);
    return {windows.begin * stride, at.h + 1 == d.h ? extent : windows.end * stride};
  }
  if (d.h > 1 && call.what == kind::backward && !is_gradient_of_convolution(o))
    return rows_of_gradient(g, call, d, at);
  return part_rows(extent, d, at);
}

box part_box(const graph& g, const ooc_call& call, const op& o, const division& d, const part_index& at) {
  const box all = iteration_domain(g, o);
  const cut_ranges cut = ranges_of(o);
  box part;
  if (d.n > 1) part.batch = part_of(all.batch.end, at.n, d.n);
  if (d.h > 1) part.row = rows_of(g, call, o, d, at);
  if (d.yc > 1) part.*cut.yc = part_of((all.*cut.yc).end, at.yc, d.yc);
  if (d.xc > 1 && cut.xc != nullptr) part.*cut.xc = part_of((all.*cut.xc).end, at.xc, d.xc);
  return part;
}

bool supports_division(const graph& g, const ooc_call& call, const division& d) {
  try {
    for (op_id o = call.begin; o < call.end; ++o)
      accesses_of(g, g.ops[o], part_box(g, call, g.ops[o], d, {}));
    return true;
  } catch (const std::invalid_argument&) {  // no such cut
    return false;
  }
}

bool can_cut_rows(const graph& g, const ooc_call& call) {
  if (call.what == kind::forward) {
    const op* pool = pool_of(g, call);
    if (pool == nullptr) return true;
    const auto& how = std::get<max_pool>(pool->attributes.value);
    return how.window == how.stride && how.pad == 0;
  }
  if (call.what == kind::other) return call.end - call.begin == 1;
  return std::ranges::all_of(g.ops.begin() + call.begin, g.ops.begin() + call.end,
                             [](const op& o) { return o.out.size() == 1; });
}

}  // namespace

nanoseconds forward_time(const forward_part_times& t, const division& d) {
  const std::uint64_t parts = std::uint64_t{d.n} * d.yc * d.h;
  const std::uint64_t sums = d.xc;
  const nanoseconds inner = t.pre + t.conv + repeated_time(sums - 1, std::max(t.pre, t.conv));
  if (inner < t.off) return inner + repeated_time(parts, t.off);
  if (t.pre < t.conv) return t.pre + repeated_time(parts * sums, t.conv) + t.off_last;
  return repeated_time(parts * sums, t.pre) + t.conv_last + t.off_last;
}

nanoseconds backward_time(const backward_part_times& t, const division& d) {
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

std::optional<division> best_division(const division& most, std::span<const coordinate> order,
                                      const division_time& time) {
  timed_division best{{}, time({})};
  for (const coordinate along : order) try_part_counts(best, along, most, time);
  if (best.time) return best.by;
  for (std::size_t fine = 0; fine < order.size() && !best.time; ++fine) {
    best.by.*order[fine] = most.*order[fine];
    best.time = time(best.by);
    for (std::size_t i = fine + 1; i < order.size() && !best.time; ++i)
      try_part_counts(best, order[i], most, time);
  }
  if (!best.time) return std::nullopt;
  for (const coordinate along : order) try_part_counts(best, along, most, time);
  return best.by;
}

std::vector<ooc_call> calls_of(const graph& g) {
  std::vector<ooc_call> all;
  for (op_id o = 0; o < g.ops.size(); o = all.back().end) {
    if (has_kind<convolution>(g.ops[o])) {
      all.push_back({o, forward_end(g, o), kind::forward});
    } else if (const op_id end = backward_end(g, o); end > o) {
      all.push_back({o, end, kind::backward});
    } else {
      all.push_back({o, o + 1, kind::other});
    }
  }
  return all;
}

std::vector<ooc_call> split_into_operators(const graph& g, const ooc_call& call) {
  std::vector<ooc_call> all;
  for (op_id o = call.begin; o < call.end; ++o) {
    const op& x = g.ops[o];
    const bool filters = has_kind<convolution_backward_data, convolution_backward_filter>(x);
    all.push_back({o, o + 1,
                   has_kind<convolution>(x) ? kind::forward
                   : filters                ? kind::backward
                                            : kind::other});
  }
  return all;
}

division max_division(const graph& g, const ooc_call& call) {
  const op& o = divided_operator(g, call);
  const box all = iteration_domain(g, o);
  const cut_ranges cut = ranges_of(o);
  division most;
  const auto take = [&](coordinate along, std::int64_t extent) {
    division two;
    two.*along = 2;
    if (extent > 1 && supports_division(g, call, two)) most.*along = static_cast<std::uint32_t>(extent);
  };
  take(&division::n, all.batch.end);
  if (can_cut_rows(g, call)) {
    std::int64_t rows = all.row.end;
    for (op_id i = call.begin; i < call.end; ++i)
      rows = std::min(rows, iteration_domain(g, g.ops[i]).row.end);
    take(&division::h, rows);
  }
  if (cut.xc != nullptr) take(&division::xc, (all.*cut.xc).end);
  take(&division::yc, (all.*cut.yc).end);
  return most;
}

ooc_step step_of(const graph& g, const ooc_call& call, const division& d, const part_index& at) {
  ooc_step step;
  for (op_id i = call.begin; i < call.end; ++i) {
    const op& o = g.ops[i];
    const bool once =
        ranges_of(o).xc == nullptr;  // operators that are not cut along the channels of x run once
    if (once && call.what == kind::forward && at.xc + 1 < d.xc) continue;
    if (once && call.what == kind::backward && at.xc > 0) continue;
    step.push_back({i, part_box(g, call, o, d, at)});
  }
  return step;
}

std::vector<ooc_step> steps_of(const graph& g, const ooc_call& call, const division& d) {
  std::vector<ooc_step> all;
  part_index at;
  const auto add = [&] {
    ooc_step step = step_of(g, call, d, at);
    if (!step.empty()) all.push_back(std::move(step));
  };
  const bool forward = call.what != kind::backward;
  for (at.n = 0; at.n < d.n; ++at.n) {
    if (forward) {
      for (at.yc = 0; at.yc < d.yc; ++at.yc)
        for (at.h = 0; at.h < d.h; ++at.h)
          for (at.xc = 0; at.xc < d.xc; ++at.xc) add();
    } else {
      for (at.h = 0; at.h < d.h; ++at.h)
        for (at.xc = 0; at.xc < d.xc; ++at.xc)
          for (at.yc = 0; at.yc < d.yc; ++at.yc) add();
    }
  }
  return all;
}

}  // namespace um
