// Graphs by dice, for properties that hold for every graph.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "networks/passes.hpp"
#include "tests/planners/random_networks.hpp"

namespace um::testing {

// Operators of any cost that read and write tensors of any size and element type: they can be cut along the
// batch or not, read tensors whole or in parts, sum over parts, work in place, update parameters, and some
// may not be repeated. Tensors may be read many times, or never.
class random_opaque_graph {
 public:
  explicit random_opaque_graph(std::uint32_t seed) : dice_(seed) {
    g_.name = "random" + std::to_string(seed);
  }

  graph make() {
    constexpr std::array<std::int64_t, 8> batches{1, 2, 3, 4, 6, 8, 16, 64};
    batch_ = batches.at(below(batches.size()));
    const std::uint32_t ops = 2 + below(below(4) == 0 ? 20 : 8);
    const bool trains = below(2) == 0;
    for (std::uint32_t i = 0, given = 1 + below(2); i < given; ++i) add(role::input, true);
    for (std::uint32_t i = 0; i < ops; ++i) {
      const bool backward = trains && 2 * i >= ops;
      if (!readable_parameters_.empty() && chance(10)) {
        append_update(i);
      } else {
        append(i, backward, i + 1 == ops);
      }
    }
    g_.shares_memory = !chance(10);
    return std::move(g_);
  }

 private:
  std::uint32_t below(std::size_t n) { return static_cast<std::uint32_t>(dice_() % n); }
  bool chance(std::uint32_t percent) { return below(100) < percent; }
  // Evenly over the logarithm.
  double between(double least, double most) {
    return least * std::exp(std::log(most / least) * (below(1000) / 1000.0));
  }

  tensor_id add(role use, bool of_batch) {
    constexpr std::array types{dtype::f32, dtype::f32, dtype::bf16, dtype::bf16, dtype::i32, dtype::u8};
    tensor t;
    t.name = "t" + std::to_string(g_.tensors.size());
    t.role = use;
    t.type = types.at(below(types.size()));
    t.shape.n = of_batch ? batch_ : 1;
    const double bytes = chance(20) ? between(16, 65'536) : between(1e6, 3e8);
    t.shape.c = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(bytes) / t.shape.n / static_cast<std::int64_t>(element_bytes(t.type)));
    g_.tensors.push_back(std::move(t));
    const auto id = static_cast<tensor_id>(g_.tensors.size() - 1);
    (use == role::parameter || use == role::state ? readable_parameters_ : readable_).push_back(id);
    return id;
  }

  opaque costs() {
    opaque a{.label = "op", .flops = static_cast<std::uint64_t>(between(1e6, 1e10)), .products = chance(50)};
    if (chance(70)) a.duration = static_cast<nanoseconds>(between(5'000, 5'000'000));
    if (chance(20)) a.workspace_bytes = static_cast<byte_count>(between(1e4, 1e8));
    return a;
  }
  bool is_of_batch(tensor_id t) const { return g_.tensors[t].shape.n == batch_; }

  void append(std::uint32_t i, bool backward, bool last) {
    op o{"op" + std::to_string(i), {}, {}, {}, !chance(15), {}};
    o.in.push_back(readable_[chance(60) ? readable_.size() - 1 : below(readable_.size())]);
    for (std::uint32_t more = below(3); more > 0; --more) read(o, readable_[below(readable_.size())]);
    if (chance(40)) {
      const bool known = !readable_parameters_.empty() && chance(50);
      read(o, known ? readable_parameters_[below(readable_parameters_.size())]
                    : add(chance(80) ? role::parameter : role::state, chance(20)));
    }
    for (std::uint32_t outs = 1 + below(chance(30) ? 2 : 1); outs > 0; --outs) {
      const bool of_batch = chance(75);
      const role use = last                                    ? role::output
                       : backward && !of_batch                 ? role::parameter_gradient
                       : backward || (!of_batch && chance(10)) ? role::activation_gradient
                                                               : role::activation;
      o.out.push_back(add(use, of_batch));
    }
    alias(o);
    opaque a = costs();
    cut(o, a);
    o.attributes = std::move(a);
    g_.ops.push_back(std::move(o));
  }

  static void read(op& o, tensor_id t) {
    if (std::ranges::find(o.in, t) == o.in.end()) o.in.push_back(t);
  }

  // The first output may take the place of the first input; then they have the same extents.
  void alias(op& o) {
    if (!chance(30)) return;
    tensor& to = g_.tensors[o.out[0]];
    to.shape = g_.tensors[o.in[0]].shape;
    to.type = g_.tensors[o.in[0]].type;
    o.alias = may_alias{0, 0};
  }

  void cut(const op& o, opaque& a) {
    if (batch_ == 1 || chance(25)) return;
    bool parts = false;
    for (const tensor_id t : o.in) {
      const bool part = is_of_batch(t) && chance(85);
      parts = parts || part;
      a.in.push_back(part ? batch_cut::part : batch_cut::whole);
    }
    for (const tensor_id t : o.out) {
      const bool part = is_of_batch(t) && chance(90);
      parts = parts || part;
      a.out.push_back(part ? batch_cut::part : batch_cut::sum);
    }
    if (!parts) a.in = a.out = {};
  }

  // In place, and the last to touch what it updates: each tensor has one writer.
  void append_update(std::uint32_t i) {
    const std::uint32_t which = below(readable_parameters_.size());
    const tensor_id w = readable_parameters_[which];
    readable_parameters_.erase(readable_parameters_.begin() + which);
    op o{"update" + std::to_string(i), costs(), {w}, {w}, false, {}};
    read(o, readable_.back());
    g_.ops.push_back(std::move(o));
  }

  graph g_;
  std::mt19937 dice_;
  std::int64_t batch_ = 1;
  std::vector<tensor_id> readable_, readable_parameters_;
};

// One of three is a network of convolutions, whose operators can be cut along all axes, the others are
// opaque.
inline graph random_graph(std::uint32_t seed) {
  if (seed % 3 != 0) return random_opaque_graph(seed).make();
  constexpr std::array arithmetics{precision::fp32, precision::tf32, precision::bf16};
  const precision in = arithmetics.at(seed / 3 % arithmetics.size());
  return with_storage_format(random_network(seed, 40), in,
                             seed % 2 == 0 ? memory_order::nchw : memory_order::nhwc);
}

}  // namespace um::testing
