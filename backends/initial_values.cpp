#include "backends/initial_values.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <thread>

#include "backends/bf16.hpp"
#include "core/hash.hpp"
#include "core/operands.hpp"

namespace um {
namespace {

// The output function of SplitMix64: element i of a stream, without computing earlier ones.
std::uint64_t bits_at(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

// Uniform in [-1, 1), exact in single precision.
float uniform_at(std::uint64_t seed, std::uint64_t index) {
  const auto top = static_cast<std::int32_t>(bits_at(seed, index) >> 40);  // 24 bits
  return static_cast<float>(top - (1 << 23)) / static_cast<float>(1 << 23);
}

// centre + half * u, with u uniform in [-1, 1). Half-widths around 1 are powers of two: their products are
// exact, so that a fused multiply-add gives the same bits.
struct distribution {
  float centre = 0, half = 1;
};
constexpr distribution small{0.0F, 0.1F}, near_one{1.0F, 0.125F};

// Returns the distribution of a parameter that is this operand of such an operator, or nothing if it is not a
// vector.
std::optional<distribution> distribution_by_operand(const op_attributes& what, std::size_t operand) {
  const auto vectors = [operand](std::initializer_list<distribution> from_second) {
    const bool among = operand >= 1 && operand <= from_second.size();
    return among ? std::optional(from_second.begin()[operand - 1]) : std::nullopt;
  };
  const auto bias_at = [operand](std::size_t place) {
    return operand == place ? std::optional(small) : std::nullopt;
  };
  return std::visit(
      overloaded{[&](const convolution&) { return bias_at(2); }, [&](const linear&) { return bias_at(2); },
                 [&](const max_pool&) { return bias_at(1); },
                 [&](const batch_norm&) { return vectors({near_one, small}); },
                 [&](const normalize&) { return vectors({near_one, small, small, near_one}); },
                 [](const auto&) { return std::optional<distribution>(); }},
      what.value);
}

distribution distribution_of(const graph& g, tensor_id what) {
  const tensor& t = g.tensors[what];
  if (t.role != role::parameter) return {};
  for (const op& o : g.ops) {
    for (std::size_t i = 0; i < o.in.size(); ++i) {
      if (o.in[i] != what) continue;
      if (const auto told = distribution_by_operand(o.attributes, i)) return *told;
    }
  }
  const std::int64_t fan_in = t.shape.c * t.shape.h * t.shape.w;
  return {0.0F, std::sqrt(6.0F / static_cast<float>(std::max<std::int64_t>(fan_in, 1)))};
}

// Returns the parameter of which `state` is the fp32 master, if any.
std::optional<tensor_id> parameter_of_master(const graph& g, tensor_id state) {
  for (const op& o : g.ops) {
    const auto* const step = std::get_if<optimizer_step>(&o.attributes.value);
    if (step == nullptr) continue;
    for (const stepped_parameter& p : stepped_parameters(g, o)) {
      if (p.has_master && o.in[p.parameter_index + 2 + static_cast<std::size_t>(step->moments)] == state)
        return o.in[p.parameter_index];
    }
  }
  return std::nullopt;
}

// Number of classes of the loss that reads these labels; 1 if none does.
std::uint64_t class_count(const graph& g, tensor_id labels) {
  for (const op& o : g.ops) {
    const bool is_loss = has_kind<softmax_cross_entropy, softmax_cross_entropy_gradient>(o);
    if (!is_loss || o.in.at(1) != labels) continue;
    const dims& logits = g.tensors[o.in[0]].shape;
    return static_cast<std::uint64_t>(logits.c * logits.h * logits.w);
  }
  return 1;
}

// Calls f(place, index) for `count` elements from a position in memory on: the place counted from that
// position, and the logical index. Divides once for each run of channels.
template <class F>
void for_each_element(const tensor& t, std::int64_t first, std::int64_t count, F f) {
  const bool channels_first = t.order == memory_order::nchw;
  const std::int64_t length = channels_first ? element_count(t.shape) : t.shape.c;
  const std::int64_t apart = channels_first ? 1 : t.shape.h * t.shape.w;
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t position = first + done, index = logical_index(t, position);
    const std::int64_t run = std::min(length - position % length, count - done);
    for (std::int64_t i = 0; i < run; ++i) f(done + i, static_cast<std::uint64_t>(index + i * apart));
    done += run;
  }
}

// Calls f(begin, end) for parts of [0, count), on several threads if there is enough work.
template <class F>
void run_in_parallel(std::int64_t count, F f) {
  constexpr std::int64_t worth_a_thread = 1 << 19;
  const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  const std::int64_t parts =
      std::clamp<std::int64_t>(count / worth_a_thread, 1, std::min<std::int64_t>(cores, 16));
  std::vector<std::jthread> helpers;
  for (std::int64_t p = 1; p < parts; ++p) {
    helpers.emplace_back([=] { f(count * p / parts, count * (p + 1) / parts); });
  }
  f(0, count / parts);
}

template <class Value, class Make>
void write_converted(const tensor& t, std::int64_t first, std::span<std::byte> to, Make make) {
  run_in_parallel(
      static_cast<std::int64_t>(to.size() / sizeof(Value)), [&](std::int64_t begin, std::int64_t end) {
        std::byte* const out = to.data() + begin * static_cast<std::int64_t>(sizeof(Value));
        for_each_element(t, first + begin, end - begin, [&](std::int64_t place, std::uint64_t index) {
          const Value value = make(index);
          std::memcpy(out + place * static_cast<std::int64_t>(sizeof(Value)), &value, sizeof(Value));
        });
      });
}

}  // namespace

void write_initial_values(const graph& g, tensor_id what, std::int64_t first, std::span<std::byte> to) {
  const tensor& t = g.tensors.at(what);
  const auto of_master = t.role == role::state ? parameter_of_master(g, what) : std::nullopt;
  if (t.role == role::state && !of_master) {
    std::ranges::fill(to, std::byte{0});
    return;
  }
  const tensor_id like = of_master.value_or(what);
  const std::uint64_t seed = fnv1a(g.tensors.at(like).name);
  const distribution from = distribution_of(g, like);
  const auto floating = [&](std::uint64_t i) { return from.centre + from.half * uniform_at(seed, i); };
  switch (t.type) {
    case dtype::f32:
      return write_converted<float>(t, first, to, floating);
    case dtype::bf16:
      return write_converted<std::uint16_t>(t, first, to,
                                            [&](std::uint64_t i) { return to_bf16(floating(i)); });
    case dtype::i32:
      return write_converted<std::int32_t>(t, first, to,
                                           [&, classes = class_count(g, what)](std::uint64_t i) {
                                             return static_cast<std::int32_t>(bits_at(seed, i) % classes);
                                           });
    case dtype::u8:  // masks and counters of imported networks
      return write_converted<std::uint8_t>(t, first, to, [](std::uint64_t) { return std::uint8_t{0}; });
    case dtype::u16:
      return write_converted<std::uint16_t>(t, first, to, [](std::uint64_t) { return std::uint16_t{0}; });
  }
}

std::vector<std::byte> initial_values(const graph& g, tensor_id what) {
  std::vector<std::byte> values(bytes_of(g.tensors.at(what)));
  write_initial_values(g, what, 0, values);
  return values;
}

}  // namespace um
