#include "tests/cuda/one_operator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "backends/bf16.hpp"
#include "backends/cuda/operators.hpp"
#include "core/access.hpp"
#include "core/lifetimes.hpp"
#include "tests/cuda/elements.hpp"
#include "um_allocators/arena.hpp"
#include "um_allocators/check.hpp"

namespace um::gpu_tests {
namespace {

constexpr byte_count guard = 512, workspace_cap = 256 * MiB;
constexpr auto poison = std::byte{0xff};  // not a number as f32 and as bf16

double rounded(dtype type, double value) {
  if (type == dtype::f32) return static_cast<float>(value);
  if (type == dtype::bf16) return from_bf16(to_bf16(static_cast<float>(value)));
  return value;
}

// Device memory for the buffers of one call. It is allocated once: cudaMalloc and cudaFree wait for every
// program that shares the GPU.
class scratch_memory {
 public:
  std::byte* take(byte_count bytes) {
    const byte_count from = used_;
    used_ = round_up(from + bytes, 512);
    if (used_ > memory_.bytes()) throw std::length_error("one call's buffers exceed the scratch memory");
    return memory_.data() + from;
  }
  void reuse() { used_ = 0; }

 private:
  arena memory_ = device_arena(GiB);
  byte_count used_ = 0;
};

// `bytes` of scratch memory, poisoned, with poisoned guards on both sides.
// The caller synchronizes the device before another stream uses them.
class guarded_buffer {
 public:
  guarded_buffer(scratch_memory& from, byte_count bytes, byte_count misalignment)
      : bytes_(bytes), before_(guard + misalignment), memory_(from.take(before_ + bytes + guard)) {
    check(cudaMemsetAsync(memory_, static_cast<int>(poison), before_ + bytes + guard));
  }
  std::byte* data() const { return memory_ + before_; }
  void set(const std::vector<std::byte>& bytes) const {
    check(cudaMemcpy(data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
  }
  std::vector<std::byte> get() const { return bytes_at(before_, bytes_); }
  bool guards_stand() const {
    const auto stands = [&](byte_count from, byte_count bytes) {
      return std::ranges::all_of(bytes_at(from, bytes), [](std::byte b) { return b == poison; });
    };
    return stands(0, before_) && stands(before_ + bytes_, guard);
  }

 private:
  std::vector<std::byte> bytes_at(byte_count from, byte_count bytes) const {
    std::vector<std::byte> some(bytes);
    check(cudaMemcpy(some.data(), memory_ + from, bytes, cudaMemcpyDeviceToHost));
    return some;
  }
  byte_count bytes_, before_;
  std::byte* memory_;
};

// The bytes of a region of a tensor, dense, from those of the whole; or back.
void for_runs(const tensor& t, const region& r, auto copy) {
  byte_count at = 0;
  for (const range& run : runs_of(t, r)) {
    copy(run, at);
    at += run.bytes;
  }
}
std::vector<std::byte> part_bytes(const tensor& t, const region& r, const std::vector<std::byte>& whole) {
  std::vector<std::byte> part(bytes_of(t, r));
  for_runs(t, r, [&](const range& run, byte_count at) {
    std::copy_n(whole.data() + run.offset, run.bytes, part.data() + at);
  });
  return part;
}
void reset(const tensor& t, const region& r, const std::vector<std::byte>& part,
           std::vector<std::byte>& whole) {
  for_runs(t, r, [&](const range& run, byte_count at) {
    std::copy_n(part.data() + at, run.bytes, whole.data() + run.offset);
  });
}

// One operator, part by part: the values of its operands between calls, by position; aliased outputs share
// an input's.
class call {
 public:
  call(session& gpu, const graph& g, const op& o, const calling& options)
      : session_(gpu), g_(g), o_(o), how_(options) {
    for (const auto* side : {&o.in, &o.out}) {
      for (const tensor_id id : *side) what_.push_back(id);
    }
    for (std::size_t i = 0; i < what_.size(); ++i) {
      const bool shared = options.in_place && o.alias && i == o.in.size() + o.alias->output;
      const auto first = static_cast<std::size_t>(std::ranges::find(what_, what_[i]) - what_.begin());
      place_of_.push_back(shared ? o.alias->input : i >= o.in.size() ? first : i);
      whole_.emplace_back(bytes_of(g.tensors[what_[i]]), poison);
    }
  }

  void run(const std::vector<reference::values>& values) {
    for (std::size_t i = 0; i < o_.in.size(); ++i) {
      whole_[i] = in_memory(g_.tensors[what_[i]], values[what_[i]]);
    }
    for (const box& part : parts_of(g_, o_, how_.cut)) run_part(part);
  }
  const std::vector<std::byte>& output(std::size_t i) const { return whole_[place_of_[o_.in.size() + i]]; }
  bool inputs_stand() const { return inputs_stand_; }
  bool guards_stand() const { return guards_stand_; }

 private:
  // True for an input that shares its place with an output.
  bool is_written(std::size_t input) const {
    return std::find(place_of_.begin() + static_cast<std::ptrdiff_t>(o_.in.size()), place_of_.end(), input) !=
           place_of_.end();
  }

  void run_part(const box& part) {
    static scratch_memory scratch;
    scratch.reuse();
    const std::vector<access> touched = accesses_of(g_, o_, part);
    std::vector<guarded_buffer> buffers;
    bound_operands operands;
    std::uintptr_t all = 16;
    for (std::size_t i = 0; i < what_.size(); ++i) {
      const tensor& t = g_.tensors[what_[i]];
      const bool own = place_of_[i] == i;
      const bool off = how_.misaligned && operand_alignment(o_) == 1;
      buffers.emplace_back(scratch, own ? bytes_of(t, touched[i].where) : 0, off ? element_bytes(t.type) : 0);
      if (own) buffers[i].set(part_bytes(t, touched[i].where, whole_[i]));
      std::byte* const at = buffers[place_of_[i]].data();
      all |= reinterpret_cast<std::uintptr_t>(at);
      operands.data.push_back(at);
    }
    const auto alignment = static_cast<std::uint32_t>(all & (~all + 1));
    const engine chosen = choose_engine(session_, g_, o_, part, alignment, workspace_cap);
    const guarded_buffer workspace(scratch, chosen.choice.workspace_bytes, 0);
    operands.workspace = workspace.data();
    check(cudaDeviceSynchronize());  // the operator's stream does not wait for the buffers' contents
    chosen.bind(operands)();
    check(cudaStreamSynchronize(session_.compute().stream));
    guards_stand_ = guards_stand_ && workspace.guards_stand();
    for (std::size_t i = 0; i < what_.size(); ++i) {
      const tensor& t = g_.tensors[what_[i]];
      guards_stand_ = guards_stand_ && buffers[i].guards_stand();
      if (place_of_[i] != i) continue;
      const std::vector<std::byte> after = buffers[i].get();
      if (i >= o_.in.size() || is_written(i)) {
        reset(t, touched[i].where, after, whole_[i]);
      } else {
        inputs_stand_ = inputs_stand_ && after == part_bytes(t, touched[i].where, whole_[i]);
      }
    }
  }

  session& session_;
  const graph& g_;
  const op& o_;
  calling how_;
  std::vector<tensor_id> what_;
  std::vector<std::size_t> place_of_;
  std::vector<std::vector<std::byte>> whole_;
  bool inputs_stand_ = true, guards_stand_ = true;
};

// Whether the first output is made element by element, or from windows that parts have whole.
bool sums_in_any_cut(const op& o) {
  return !std::visit(
      overloaded{[](const relu&) { return true; }, [](const relu_backward&) { return true; },
                 [](const relu_bias_backward&) { return true; }, [](const add&) { return true; },
                 [](const cast&) { return true; }, [](const normalize&) { return true; },
                 [](const max_pool&) { return true; }, [](const max_pool_backward&) { return true; },
                 [](const average_pool&) { return true; }, [](const average_pool_backward&) { return true; },
                 [](const concat&) { return true; }, [](const concat_backward&) { return true; },
                 [](const global_average_pool_backward&) { return true; },
                 [](const softmax_cross_entropy_backward&) { return true; },
                 [](const sgd_update&) { return true; }, [](const optimizer_step&) { return true; },
                 [](const auto&) { return false; }},
      o.attributes.value);
}

void expect_right(session& gpu, const graph& g, const op& o, const calling& options, double tolerance,
                  const std::vector<reference::values>& values,
                  const std::vector<reference::values>& expected, const std::string& label) {
  const std::string where = label + " " + o.name + name_of(options.cut);
  call first(gpu, g, o, options), second(gpu, g, o, options);
  first.run(values);
  second.run(values);
  for (std::size_t i = 0; i < o.out.size(); ++i) {
    const tensor& t = g.tensors[o.out[i]];
    const std::vector<std::byte>& bytes = first.output(i);
    EXPECT_EQ(bytes, second.output(i)) << where << ": other bits of " << t.name << " a second time";
    const double error = relative_error(from_memory(t, bytes), expected[i]);
    // bf16 rounds some sums before what adds to them, and among few elements nothing evens out.
    const bool is_rough = g.arithmetic == precision::bf16 && element_count(t.shape) < 100;
    const double bound = is_floating(t.type) ? tolerance * (is_rough ? 2 : 1) : 0.0;
    EXPECT_LE(error, bound) << where << ": " << t.name;
    EXPECT_FALSE(std::isnan(error)) << where << ": " << t.name;
  }
  EXPECT_TRUE(first.inputs_stand()) << where << ": wrote to an input";
  EXPECT_TRUE(first.guards_stand()) << where << ": wrote beside an operand";
  if (options.cut == cutting{} || sums_in_any_cut(o)) return;
  calling at_once = options;
  at_once.cut = {};
  call whole(gpu, g, o, at_once);
  whole.run(values);
  EXPECT_EQ(first.output(0), whole.output(0)) << where << ": other bits than the whole";
}

}  // namespace

reference_values reference_values_of(const graph& g) {
  constexpr std::uint64_t seed = 20;
  reference_values all{std::vector<reference::values>(g.tensors.size()), {}};
  const auto keep = [&](tensor_id id, reference::values values) {
    for (double& value : values) value = rounded(g.tensors[id].type, value);
    all.read[id] = std::move(values);
  };
  for (auto& [id, values] : reference::numbers_for(g, seed)) keep(id, std::move(values));
  for (const op& o : g.ops) {
    std::vector<reference::values> in;
    for (const tensor_id id : o.in) in.push_back(all.read[id]);
    all.expected.push_back(reference::execute(g, o, in));
    if (!o.is_repeatable) continue;  // an update: readers before it see the old value
    for (std::size_t i = 0; i < o.out.size(); ++i) keep(o.out[i], all.expected.back()[i]);
  }
  return all;
}

std::string name_of(const cutting& c) {
  std::string text;
  for (const auto& [name, parts] : {std::pair{"batch", c.batch}, std::pair{"channel", c.channel},
                                    std::pair{"row", c.row}, std::pair{"reduction", c.reduction}}) {
    if (parts > 1) text += std::string(" ") + name + "/" + std::to_string(parts);
  }
  return text;
}

std::vector<box> parts_of(const graph& g, const op& o, const cutting& c) {
  if (c == cutting{}) return {box{}};
  const box all = iteration_domain(g, o);
  const auto count = [](const interval& of, std::uint32_t parts) {
    return std::min(static_cast<std::uint32_t>(of.end), parts);
  };
  // All of an axis stays unsaid: some operators have no such axis.
  const auto range_of = [](const interval& of, std::uint32_t part, std::uint32_t parts) {
    return parts == 1 ? interval{} : part_of(of.end, part, parts);
  };
  const std::uint32_t batch = count(all.batch, c.batch), channel = count(all.channel, c.channel),
                      row = count(all.row, c.row), reduction = count(all.reduction, c.reduction);
  std::vector<box> parts;
  for (std::uint32_t b = 0; b < batch; ++b) {
    for (std::uint32_t k = 0; k < channel; ++k) {
      for (std::uint32_t r = 0; r < row; ++r) {
        for (std::uint32_t i = 0; i < reduction; ++i) {
          parts.push_back({range_of(all.batch, b, batch), range_of(all.channel, k, channel),
                           range_of(all.row, r, row), range_of(all.reduction, i, reduction)});
        }
      }
    }
  }
  if (parts.size() == 1) return {};
  try {
    for (const box& part : parts) static_cast<void>(accesses_of(g, o, part));
  } catch (const std::invalid_argument&) {
    return {};
  }
  return parts;
}

std::size_t expect_operators_right(session& gpu, const graph& g, const reference_values& values,
                                   const calling& options, double tolerance, const std::string& label) {
  EXPECT_EQ(defect_of(g), std::nullopt) << label;
  std::size_t ran = 0;
  for (std::size_t i = 0; i < g.ops.size(); ++i) {
    if (parts_of(g, g.ops[i], options.cut).empty()) continue;
    expect_right(gpu, g, g.ops[i], options, tolerance, values.read, values.expected[i], label);
    ++ran;
  }
  return ran;
}

}  // namespace um::gpu_tests
