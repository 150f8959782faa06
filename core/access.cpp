#include "core/access.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace um {
namespace {

__extension__ using wide = unsigned __int128;

// --- the cutting rules: what each operand contributes to a slice ---

enum class touch : std::uint8_t {
  refused,  // the operator cannot be cut along this axis
  whole,
  part,     // the same elements along the same axis
  filters,  // a part of channels is a part of the first extent
  windows,  // input rows that the windows of the slice's output rows cover
  meeting,  // output rows whose windows meet the slice's input rows
  sum,      // everything, written by part 0 and added to by later parts
};

// One operand's rule for each axis.
struct by_axis {
  touch batch, channel, row;
  touch at(axis along) const { return along == axis::batch ? batch : along == axis::channel ? channel : row; }
};

// `subject` is the operand whose extents are cut.
struct cutting {
  std::vector<by_axis> in, out;
  tensor_id subject = 0;
};

constexpr by_axis everywhere{touch::part, touch::part, touch::part};
constexpr by_axis batch_or_channel{touch::part, touch::part, touch::refused};
constexpr by_axis batch_only{touch::part, touch::refused, touch::refused};
constexpr by_axis all_of_it{touch::whole, touch::part, touch::whole};  // a vector over channels
constexpr by_axis channel_only{touch::refused, touch::part, touch::refused};

struct cutting_rules {
  const op& o;

  cutting operator()(const convolution&) const {
    return {{{touch::part, touch::whole, touch::windows},
             {touch::whole, touch::filters, touch::whole},
             {touch::whole, touch::part, touch::whole}},
            {everywhere},
            o.out[0]};
  }
  cutting operator()(const convolution_backward_data&) const {
    return {{{touch::whole, touch::part, touch::whole}, {touch::part, touch::whole, touch::meeting}},
            {everywhere},
            o.out[0]};
  }
  cutting operator()(const convolution_backward_filter&) const {
    return {{{touch::part, touch::whole, touch::windows}, everywhere},
            {{touch::sum, touch::filters, touch::sum}},
            o.in[1]};
  }
  cutting operator()(const bias_backward&) const {
    return {{everywhere}, {{touch::sum, touch::part, touch::sum}}, o.in[0]};
  }
  cutting operator()(const relu&) const { return {{everywhere}, {everywhere}, o.out[0]}; }
  cutting operator()(const relu_backward&) const {
    return {{everywhere, everywhere}, {everywhere}, o.out[0]};
  }
  cutting operator()(const relu_bias_backward&) const {
    return {{everywhere, everywhere}, {everywhere, {touch::sum, touch::part, touch::sum}}, o.out[0]};
  }
  cutting operator()(const max_pool&) const {
    return {{{touch::part, touch::part, touch::windows}, all_of_it}, {everywhere, everywhere}, o.out[0]};
  }
  // Windows that meet two parts' rows would be counted twice in a bias gradient.
  cutting operator()(const max_pool_backward&) const {
    constexpr by_axis gradient{touch::part, touch::part, touch::meeting};
    const by_axis dx = o.out.size() > 1 ? batch_or_channel : everywhere;
    return {{gradient, gradient, gradient}, {dx, {touch::sum, touch::part, touch::refused}}, o.out[0]};
  }
  cutting operator()(const linear&) const {
    return {{{touch::part, touch::whole, touch::refused},
             {touch::whole, touch::filters, touch::refused},
             {touch::whole, touch::part, touch::refused}},
            {batch_or_channel},
            o.out[0]};
  }
  cutting operator()(const linear_backward_data&) const {
    return {{{touch::whole, touch::part, touch::refused}, {touch::part, touch::whole, touch::refused}},
            {batch_or_channel},
            o.out[0]};
  }
  cutting operator()(const linear_backward_filter&) const {
    return {{{touch::part, touch::whole, touch::refused}, batch_or_channel},
            {{touch::sum, touch::filters, touch::refused}, {touch::sum, touch::part, touch::refused}},
            o.in[1]};
  }
  // Statistics are of the whole batch.
  cutting operator()(const batch_norm&) const {
    return {{channel_only, channel_only, channel_only, channel_only},
            {channel_only, channel_only, channel_only},
            o.out[0]};
  }
  cutting operator()(const normalize&) const {
    return {{everywhere, all_of_it, all_of_it, all_of_it, all_of_it, everywhere}, {everywhere}, o.out[0]};
  }
  cutting operator()(const batch_norm_backward&) const {
    return {std::vector<by_axis>(o.in.size(), channel_only), std::vector<by_axis>(o.out.size(), channel_only),
            o.out[0]};
  }
  cutting operator()(const add&) const { return {{everywhere, everywhere}, {everywhere}, o.out[0]}; }
  cutting operator()(const global_average_pool&) const {
    return {{batch_or_channel}, {batch_or_channel}, o.out[0]};
  }
  cutting operator()(const global_average_pool_backward&) const {
    return {{batch_or_channel}, {batch_or_channel}, o.out[0]};
  }
  cutting operator()(const cast&) const { return {{batch_only}, {batch_only}, o.out[0]}; }
  cutting operator()(const softmax_cross_entropy_gradient&) const {
    return {{batch_only, batch_only}, {{touch::sum, touch::refused, touch::refused}, batch_only}, o.in[0]};
  }
  cutting operator()(const softmax_cross_entropy&) const {
    return {{batch_only, batch_only}, {{touch::sum, touch::refused, touch::refused}, batch_only}, o.in[0]};
  }
  cutting operator()(const softmax_cross_entropy_backward&) const {
    return {{batch_only, batch_only}, {batch_only}, o.out[0]};
  }
  cutting operator()(const sgd_update&) const { return {{batch_only, batch_only}, {batch_only}, o.out[0]}; }
};

cutting cutting_of(const op& o) {
  return std::visit(cutting_rules{o}, o.what);
}

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
                 [](const auto&) { return row_window{}; }},
      o.what);
}

// Rows [begin, end) clipped to an extent. Never empty: where only padding would be read, the
// nearest row stands for it, so that every region holds something.
region clipped_rows(std::int64_t begin, std::int64_t end, std::int64_t extent) {
  const std::int64_t first = std::clamp<std::int64_t>(begin, 0, extent - 1);
  return {axis::row, first, std::clamp(end, first + 1, extent)};
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

region rows_under_windows(const region& r, const row_window& w, std::int64_t extent) {
  return clipped_rows(r.begin * w.stride - w.pad, (r.end - 1) * w.stride - w.pad + w.extent, extent);
}

region windows_meeting_rows(const region& r, const row_window& w, std::int64_t extent) {
  return clipped_rows(floor_divide(r.begin + w.pad - w.extent, w.stride) + 1,
                      floor_divide(r.end + w.pad - 1, w.stride) + 1, extent);
}

// --- accesses ---

region whole_of(const dims& shape) {
  return {axis::batch, 0, shape.n};
}

region region_touched(const graph& g, const op& o, const dims& shape, touch how, const region& cut) {
  switch (how) {
    case touch::part:
      return cut;
    case touch::filters:
      return {axis::batch, cut.begin, cut.end};
    case touch::windows:
      return rows_under_windows(cut, row_window_of(g, o), shape.h);
    case touch::meeting:
      return windows_meeting_rows(cut, row_window_of(g, o), shape.h);
    default:
      return whole_of(shape);
  }
}

std::vector<access> whole_accesses(const graph& g, const op& o) {
  std::vector<access> all;
  for (const tensor_id id : o.in) all.push_back({id, whole_of(g.tensors[id].shape), access_mode::read});
  for (const tensor_id id : o.out) all.push_back({id, whole_of(g.tensors[id].shape), access_mode::write});
  return all;
}

std::string described(const op& o) {
  return "operator " + o.name + " (" + std::string(kind_of(o.what)) + ")";
}

// The part of the subject that a slice covers.
region cut_of(const graph& g, const op& o, const cutting& rule, const slice& s) {
  if (rule.out[0].at(s.along) == touch::refused) {
    throw std::invalid_argument(described(o) + " cannot be cut along " + std::string(to_text(s.along)));
  }
  try {
    return region_of(g.tensors[rule.subject].shape, s);
  } catch (const std::invalid_argument& reason) {
    throw std::invalid_argument(described(o) + ": " + reason.what());
  }
}

// --- work ---

std::uint64_t product(const op& o, std::initializer_list<std::int64_t> factors) {
  std::uint64_t result = 1;
  for (const std::int64_t factor : factors) {
    const auto next = checked_multiply(result, static_cast<std::uint64_t>(factor));
    if (!next) throw std::overflow_error(described(o) + " takes more than 2^64 operations");
    result = *next;
  }
  return result;
}

std::uint64_t sum(const op& o, std::uint64_t a, std::uint64_t b) {
  const auto result = checked_add(a, b);
  if (!result) throw std::overflow_error(described(o) + " takes more than 2^64 operations");
  return *result;
}

std::uint64_t whole_flops(const graph& g, const op& o) {
  const auto shape = [&](tensor_id id) -> const dims& { return g.tensors[id].shape; };
  const auto each = [&](tensor_id id, std::int64_t count) {
    return product(o, {elements(shape(id)), count});
  };
  const auto convolving = [&](tensor_id y, tensor_id w) {
    return product(o, {2, elements(shape(y)), shape(w).c, shape(w).h, shape(w).w});
  };
  const auto multiplying = [&](tensor_id y, tensor_id w) {
    return product(o, {2, elements(shape(y)), shape(w).c, shape(w).h, shape(w).w});
  };
  const auto biased = [&](std::uint64_t flops) {
    return o.in.size() > 2 ? sum(o, flops, each(o.out[0], 1)) : flops;
  };
  return std::visit(
      overloaded{
          [&](const convolution&) { return biased(convolving(o.out[0], o.in[1])); },
          [&](const convolution_backward_data&) { return convolving(o.in[1], o.in[0]); },
          [&](const convolution_backward_filter&) { return convolving(o.in[1], o.out[0]); },
          [&](const bias_backward&) { return each(o.in[0], 1); },
          [&](const max_pool& a) { return each(o.out[0], std::int64_t{a.window} * std::int64_t{a.window}); },
          [&](const max_pool_backward&) { return each(o.in[0], 1); },
          [&](const relu_bias_backward&) { return each(o.out[0], 2); },
          // sum and sum of squares; subtract, scale, shift
          [&](const batch_norm&) { return each(o.in[0], 6); },
          [&](const normalize&) { return each(o.in[0], 3); },
          [&](const batch_norm_backward&) { return each(o.in[0], 9); },
          [&](const global_average_pool&) { return each(o.in[0], 1); },
          [&](const linear&) { return biased(multiplying(o.out[0], o.in[1])); },
          [&](const linear_backward_data&) { return multiplying(o.in[1], o.in[0]); },
          [&](const linear_backward_filter&) { return multiplying(o.in[1], o.out[0]); },
          // exponential, sum, division, logarithm; difference and mean
          [&](const softmax_cross_entropy&) { return each(o.in[0], 4); },
          [&](const softmax_cross_entropy_backward&) { return each(o.in[0], 2); },
          [&](const softmax_cross_entropy_gradient&) { return each(o.in[0], 6); },
          [&](const sgd_update&) { return each(o.out[0], 2); },
          [&](const auto&) { return each(o.out[0], 1); }},
      o.what);
}

// Rounded so that the parts of a cut add up to the whole.
std::uint64_t share(std::uint64_t total, const region& r, std::int64_t extent) {
  const auto up_to = [&](std::int64_t end) {
    return static_cast<std::uint64_t>(static_cast<wide>(total) * static_cast<wide>(end) /
                                      static_cast<wide>(extent));
  };
  return up_to(r.end) - up_to(r.begin);
}

std::uint64_t flops_of(const graph& g, const op& o, const slice& s) {
  const std::uint64_t total = whole_flops(g, o);
  if (is_whole(s)) return total;
  const cutting rule = cutting_of(o);
  return share(total, cut_of(g, o, rule, s), extent_of(g.tensors[rule.subject].shape, s.along));
}

}  // namespace

std::int64_t extent_of(const dims& shape, axis along) {
  return along == axis::batch ? shape.n : along == axis::channel ? shape.c : shape.h;
}

std::string_view to_text(axis along) {
  return along == axis::batch ? "batch" : along == axis::channel ? "channel" : "row";
}

region region_of(const dims& shape, const slice& s) {
  const std::int64_t extent = extent_of(shape, s.along);
  const std::string cut = std::to_string(s.part) + " of " + std::to_string(s.of);
  if (s.part >= s.of) {
    throw std::invalid_argument("there is no part " + cut + " along " + std::string(to_text(s.along)));
  }
  if (std::int64_t{s.of} > extent) {
    throw std::invalid_argument("part " + cut + " along " + std::string(to_text(s.along)) + ": only " +
                                std::to_string(extent) + " elements to cut");
  }
  const auto boundary = [&](std::int64_t part) {
    return static_cast<std::int64_t>(static_cast<wide>(extent) * static_cast<wide>(part) / s.of);
  };
  return {s.along, boundary(s.part), boundary(std::int64_t{s.part} + 1)};
}

bool is_whole(const dims& shape, const region& r) {
  return r.begin == 0 && r.end == extent_of(shape, r.along);
}

std::vector<range> runs_of(const tensor& t, const region& r) {
  if (is_whole(t.shape, r)) return {{0, bytes_of(t)}};
  const auto n = static_cast<byte_count>(t.shape.n), c = static_cast<byte_count>(t.shape.c);
  const auto h = static_cast<byte_count>(t.shape.h), w = static_cast<byte_count>(t.shape.w);
  const byte_count element = size_of(t.type), plane = h * w;
  const auto begin = static_cast<byte_count>(r.begin), size = static_cast<byte_count>(r.end - r.begin);
  // `count` runs of `bytes`, `stride` apart.
  const auto spread = [&](byte_count count, byte_count stride, byte_count offset, byte_count bytes) {
    std::vector<range> runs;
    for (byte_count i = 0; i < count; ++i) {
      runs.push_back({(i * stride + offset) * element, bytes * element});
    }
    return runs;
  };
  const bool last = t.order == memory_order::nhwc;  // channels last
  switch (r.along) {
    case axis::batch:
      return spread(1, 0, begin * c * plane, size * c * plane);
    case axis::channel:
      return last ? spread(n * plane, c, begin, size) : spread(n, c * plane, begin * plane, size * plane);
    case axis::row:
      return last ? spread(n, c * plane, begin * w * c, size * w * c)
                  : spread(n * c, plane, begin * w, size * w);
  }
  return {};
}

byte_count bytes_of(const tensor& t, const region& r) {
  const auto extent = static_cast<std::uint64_t>(extent_of(t.shape, r.along));
  return bytes_of(t) / extent * static_cast<std::uint64_t>(r.end - r.begin);
}

std::vector<access> accesses_of(const graph& g, const op& o, const slice& s) {
  std::vector<access> all = whole_accesses(g, o);
  if (is_whole(s) && s.part == 0) return all;
  const cutting rule = cutting_of(o);
  const region cut = cut_of(g, o, rule, s);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool is_input = i < o.in.size();
    const touch how = (is_input ? rule.in[i] : rule.out[i - o.in.size()]).at(s.along);
    all[i].where = region_touched(g, o, g.tensors[all[i].what].shape, how, cut);
    if (how == touch::sum && s.part > 0) all[i].mode = access_mode::accumulate;
  }
  return all;
}

work work_of(const graph& g, const op& o, const slice& s) {
  work result;
  for (const access& a : accesses_of(g, o, s)) {
    const byte_count bytes = bytes_of(g.tensors[a.what], a.where);
    if (a.mode != access_mode::write) result.read += bytes;
    if (a.mode != access_mode::read) result.written += bytes;
  }
  result.flops = flops_of(g, o, s);
  return result;
}

bool can_be_cut(const graph& g, const op& o, std::uint32_t parts) {
  if (std::ranges::any_of(o.out, [&](tensor_id t) { return g.tensors[t].use == role::output; })) return false;
  try {
    const std::vector<access> touched = accesses_of(g, o, {axis::batch, parts - 1, parts});
    return std::ranges::all_of(touched, [&](const access& a) {
      return !is_of_parameters(g.tensors[a.what].use) || is_whole(g.tensors[a.what].shape, a.where);
    });
  } catch (const std::invalid_argument&) {  // no such cut, or fewer images than parts
    return false;
  }
}

}  // namespace um
