#include "core/access.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "core/kinds.hpp"

namespace um {
namespace {

using cutting::cuts_by_axis, cutting::operand_cut;

__extension__ using uint128 = unsigned __int128;

// --- rows and windows ---

struct row_window {
  std::int64_t extent = 1, stride = 1, pad = 0;
};

row_window row_window_of(const graph& g, const op& o) {
  const auto pooling = [](const max_pool& a) { return row_window{a.window, a.stride, a.pad}; };
  const auto convolving = [&](const convolution& a, tensor_id filter) {
    return row_window{g.tensors[filter].shape.h, a.stride_h, a.pad_h};
  };
  return std::visit(
      overloaded{[&](const convolution& a) { return convolving(a, o.in[1]); },
                 [&](const convolution_backward_data& a) { return convolving(a.forward, o.in[0]); },
                 [&](const convolution_backward_filter& a) { return convolving(a.forward, o.out[0]); },
                 [&](const max_pool& a) { return pooling(a); },
                 [&](const max_pool_backward& a) { return pooling(a.forward); },
                 [](const average_pool& a) { return row_window{a.window_h, a.stride_h, a.pad_h}; },
                 [](const average_pool_backward& a) {
                   return row_window{a.forward.window_h, a.forward.stride_h, a.forward.pad_h};
                 },
                 [](const auto&) { return row_window{}; }},
      o.attributes.value);
}

// Clips rows [begin, end) to an extent. The result is never empty: if only padding would be read, it is the
// nearest row.
interval clipped_rows(const interval& rows, std::int64_t extent) {
  const std::int64_t first = std::clamp<std::int64_t>(rows.begin, 0, extent - 1);
  return {first, std::clamp(rows.end, first + 1, extent)};
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

// The input rows that the windows of these output rows cover; not clipped, so padding is included.
interval rows_under_windows(const interval& windows, const row_window& w) {
  return {windows.begin * w.stride - w.pad, (windows.end - 1) * w.stride - w.pad + w.extent};
}

interval windows_overlapping_rows(const interval& rows, const row_window& w, std::int64_t extent) {
  return clipped_rows({floor_divide(rows.begin + w.pad - w.extent, w.stride) + 1,
                       floor_divide(rows.end + w.pad - 1, w.stride) + 1},
                      extent);
}

// --- accesses ---

// Narrows an operand's region to the elements that one range of a part needs, as the rule says.
void narrow_region(region& where, operand_cut how, axis along, const interval& cut, const row_window& window,
                   const dims& shape) {
  switch (how) {
    case operand_cut::part:
      (along == axis::batch ? where.batch : along == axis::channel ? where.channel : where.row) = cut;
      return;
    case operand_cut::channels:
      where.channel = cut;
      return;
    case operand_cut::filters:
      where.batch = cut;
      return;
    case operand_cut::windows:
      where.row = clipped_rows(rows_under_windows(cut, window), shape.h);
      return;
    case operand_cut::overlapping_windows:
      where.row = windows_overlapping_rows(cut, window, shape.h);
      return;
    default:
      return;
  }
}

// Calls f(axis, rule, range of the part, whole range) for every axis.
void for_each_axis(const cuts_by_axis& rule, const box& part, const box& all, auto&& f) {
  f(axis::batch, rule.batch, part.batch, all.batch);
  f(axis::channel, rule.channel, part.channel, all.channel);
  f(axis::row, rule.row, part.row, all.row);
  f(axis::reduction, rule.reduction, part.reduction, all.reduction);
}

std::vector<access> whole_accesses(const graph& g, const op& o) {
  std::vector<access> all;
  for (const tensor_id id : o.in) all.push_back({id, whole_of(g.tensors[id].shape), access_mode::read});
  for (const tensor_id id : o.out) all.push_back({id, whole_of(g.tensors[id].shape), access_mode::write});
  return all;
}

std::string description_of(const op& o) {
  return "operator " + o.name + " (" + std::string(kind_of(o.attributes)) + ")";
}

// Number of channels that a convolution sums over, or of input channels of a filter gradient.
std::int64_t reduction_extent(const graph& g, const op& o) {
  const auto channels = [&](tensor_id id) { return g.tensors[id].shape.c; };
  return std::visit(overloaded{[&](const convolution&) { return channels(o.in[0]); },
                               [&](const convolution_backward_data&) { return channels(o.in[1]); },
                               [&](const convolution_backward_filter&) { return channels(o.in[0]); },
                               [](const auto&) -> std::int64_t { return 1; }},
                    o.attributes.value);
}

box iteration_domain(const graph& g, const op& o, const cutting::cut_rules& rule) {
  const dims& cut_tensor = g.tensors[rule.cut_tensor].shape;
  return {{0, cut_tensor.n}, {0, cut_tensor.c}, {0, cut_tensor.h}, {0, reduction_extent(g, o)}};
}

// The reason why an operator of that kind cannot be cut along the axis; empty if there is nothing to add.
std::string_view refusal_reason(const op_attributes& what, axis along) {
  const auto of_product = [along](const convolution& c) -> std::string_view {
    if (along != axis::channel && along != axis::reduction) return "";
    if (c.groups > 1) return ": its channels are in groups";
    return c.relu && along == axis::reduction ? ": its ReLU is of the whole sum" : "";
  };
  const auto of_join = [along]() -> std::string_view {
    return along == axis::channel ? ": its operands are joined along it" : "";
  };
  return std::visit(
      overloaded{[&](const convolution& a) { return of_product(a); },
                 [&](const convolution_backward_data& a) { return of_product(a.forward); },
                 [&](const convolution_backward_filter& a) { return of_product(a.forward); },
                 [&](const concat&) { return of_join(); }, [&](const concat_backward&) { return of_join(); },
                 [](const auto&) -> std::string_view { return ""; }},
      what.value);
}

[[noreturn]] void refuse_cut(const op& o, axis along) {
  throw std::invalid_argument(description_of(o) + " cannot be cut along " + std::string(to_text(along)) +
                              std::string(refusal_reason(o.attributes, along)));
}

box with_explicit_ranges(const graph& g, const op& o, const cutting::cut_rules& rule, const box& part) {
  box all = iteration_domain(g, o, rule);
  const auto take = [&](axis along, interval& range, const interval& given) {
    if (is_all(given) || given == range) return;
    for (std::size_t i = 0; i < o.out.size(); ++i) {
      for_each_axis(rule.outputs[i], part, all,
                    [&](axis each, operand_cut how, const interval&, const interval&) {
                      if (each == along && how == operand_cut::refused) refuse_cut(o, along);
                    });
    }
    if (given.begin < 0 || given.end <= given.begin || given.end > range.end) {
      throw std::invalid_argument(description_of(o) + ": there is no range " + std::to_string(given.begin) +
                                  ":" + std::to_string(given.end) + " along " + std::string(to_text(along)) +
                                  ", which has " + std::to_string(range.end) + " elements");
    }
    range = given;
  };
  take(axis::batch, all.batch, part.batch);
  take(axis::channel, all.channel, part.channel);
  take(axis::row, all.row, part.row);
  take(axis::reduction, all.reduction, part.reduction);
  return all;
}

std::uint64_t share_of(std::uint64_t total, const interval& part, const interval& all) {
  const auto up_to = [&](std::int64_t end) {
    return static_cast<std::uint64_t>(static_cast<uint128>(total) * static_cast<uint128>(end) /
                                      static_cast<uint128>(all.end));
  };
  return up_to(part.end) - up_to(part.begin);
}

}  // namespace

box iteration_domain(const graph& g, const op& o) {
  return iteration_domain(g, o, cutting::cut_rules_of(o));
}

box with_explicit_ranges(const graph& g, const op& o, const box& part) {
  return with_explicit_ranges(g, o, cutting::cut_rules_of(o), part);
}

std::vector<access> accesses_of(const graph& g, const op& o, const box& part) {
  std::vector<access> all = whole_accesses(g, o);
  if (is_whole(part)) return all;
  const cutting::cut_rules rule = cutting::cut_rules_of(o);
  const box domain = iteration_domain(g, o, rule), cut = with_explicit_ranges(g, o, rule, part);
  const row_window window = row_window_of(g, o);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const dims& shape = g.tensors[all[i].tensor].shape;
    for_each_axis(i < o.in.size() ? rule.inputs[i] : rule.outputs[i - o.in.size()], cut, domain,
                  [&](axis along, operand_cut how, const interval& range, const interval& whole) {
                    if (range == whole) return;
                    narrow_region(all[i].where, how, along, range, window, shape);
                    if (how == operand_cut::sum && range.begin > 0) all[i].mode = access_mode::accumulate;
                  });
  }
  return all;
}

box summation_ranges(const graph& g, const op& o, std::size_t output, const box& part) {
  const cutting::cut_rules rule = cutting::cut_rules_of(o);
  const box cut = with_explicit_ranges(g, o, rule, part);
  box summed = iteration_domain(g, o, rule);
  const cuts_by_axis& how = rule.outputs.at(output);
  if (how.batch == operand_cut::sum) summed.batch = cut.batch;
  if (how.channel == operand_cut::sum) summed.channel = cut.channel;
  if (how.row == operand_cut::sum) summed.row = cut.row;
  if (how.reduction == operand_cut::sum) summed.reduction = cut.reduction;
  return summed;
}

row_padding padding_of(const graph& g, const op& o, const box& part) {
  const row_window w = row_window_of(g, o);
  if (w.extent == 1 && w.stride == 1 && w.pad == 0) return {};
  const cutting::cut_rules rule = cutting::cut_rules_of(o);
  const box cut = with_explicit_ranges(g, o, rule, part);
  if (cut.row == iteration_domain(g, o, rule).row) return {w.pad, w.pad};
  // The padding of windows `windows` of the smaller side beside rows `rows` of the larger side.
  const auto between = [&](const interval& windows, const interval& rows) {
    const interval covered = rows_under_windows(windows, w);
    return row_padding{rows.begin - covered.begin, covered.end - rows.end};
  };
  const std::vector<access> touched = accesses_of(g, o, part);
  return std::visit(
      overloaded{[&](const convolution_backward_data&) { return between(touched[1].where.row, cut.row); },
                 [&](const max_pool_backward&) { return between(touched[0].where.row, cut.row); },
                 [&](const average_pool_backward&) { return between(touched[0].where.row, cut.row); },
                 [&](const auto&) { return between(cut.row, touched[0].where.row); }},
      o.attributes.value);
}

std::uint64_t share_of(std::uint64_t total, const graph& g, const op& o, const box& part) {
  if (is_whole(part)) return total;
  const box all = iteration_domain(g, o), cut = with_explicit_ranges(g, o, part);
  total = share_of(total, cut.batch, all.batch);
  total = share_of(total, cut.channel, all.channel);
  total = share_of(total, cut.row, all.row);
  return share_of(total, cut.reduction, all.reduction);
}

work work_of(const graph& g, const op& o, const box& part) {
  work result;
  for (const access& a : accesses_of(g, o, part)) {
    const byte_count bytes = bytes_of(g.tensors[a.tensor], a.where);
    if (a.mode != access_mode::write) result.read += bytes;
    if (a.mode != access_mode::read) result.written += bytes;
  }
  result.flops = share_of(flops_of(g, o), g, o, part);
  return result;
}

}  // namespace um
