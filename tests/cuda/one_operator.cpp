#include "tests/cuda/one_operator.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "backends/bf16.hpp"
#include "backends/cuda/operators.hpp"
#include "core/access.hpp"
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

// Device memory of `bytes` with poison in it and, for the guards, around it.
class guarded_buffer {
 public:
  guarded_buffer(byte_count bytes, byte_count misalignment)
      : bytes_(bytes), before_(guard + misalignment), memory_(device_arena(before_ + bytes + guard)) {
    check(cudaMemset(memory_.data(), static_cast<int>(poison), memory_.bytes()));
    check(cudaDeviceSynchronize());  // operators run on a stream that does not wait for this
  }
  std::byte* data() const { return memory_.data() + before_; }
  void set(const std::vector<std::byte>& bytes) const {
    check(cudaMemcpy(data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
    check(cudaDeviceSynchronize());
  }
  std::vector<std::byte> get() const {
    const std::vector<std::byte> all = everything();
    return {all.begin() + static_cast<std::ptrdiff_t>(before_),
            all.begin() + static_cast<std::ptrdiff_t>(before_ + bytes_)};
  }
  bool guards_stand() const {
    const std::vector<std::byte> all = everything();
    for (byte_count i = 0; i < all.size(); ++i) {
      if ((i < before_ || i >= before_ + bytes_) && all[i] != poison) return false;
    }
    return true;
  }

 private:
  std::vector<std::byte> everything() const {
    std::vector<std::byte> all(memory_.bytes());
    check(cudaMemcpy(all.data(), memory_.data(), all.size(), cudaMemcpyDeviceToHost));
    return all;
  }
  byte_count bytes_, before_;
  arena memory_;
};

// One call of one operator: its operands' buffers, by position; aliased outputs share an input's.
class call {
 public:
  call(session& on, const graph& g, const op& o, const calling& how) : on_(on), g_(g), o_(o), how_(how) {
    for (const auto* side : {&o.in, &o.out}) {
      for (const tensor_id id : *side) what_.push_back(id);
    }
    for (std::size_t i = 0; i < what_.size(); ++i) {
      const bool shared = how.in_place && o.alias && i == o.in.size() + o.alias->output;
      const bool updated = i >= o.in.size() && what_[i] == what_[0] && i > 0;
      if (shared || updated) {
        buffer_of_.push_back(shared ? o.alias->input : 0);
      } else {
        buffer_of_.push_back(i);
      }
      const tensor& t = g.tensors[what_[i]];
      buffers_.emplace_back(buffer_of_[i] == i ? bytes_of(t) : 0, how.misaligned ? size_of(t.type) : 0);
    }
  }

  void run(const std::vector<reference::values>& values) {
    for (std::size_t i = 0; i < o_.in.size(); ++i) {
      buffers_[i].set(in_memory(g_.tensors[what_[i]], values[what_[i]]));
    }
    for (std::uint32_t part = 0; part < how_.parts; ++part) {
      run_part(batch_part(domain_of(g_, o_).batch.end, part, how_.parts));
    }
    check(cudaStreamSynchronize(on_.compute().stream));
  }
  std::vector<std::byte> output(std::size_t i) const { return operand(o_.in.size() + i).get(); }
  // False for an input that shares its buffer with an output.
  bool input_stands(std::size_t i, const std::vector<reference::values>& values) const {
    for (std::size_t out = o_.in.size(); out < what_.size(); ++out) {
      if (buffer_of_[out] == i) return true;
    }
    return buffers_[i].get() == in_memory(g_.tensors[what_[i]], values[what_[i]]);
  }
  bool guards_stand() const {
    for (const guarded_buffer& b : buffers_) {
      if (!b.guards_stand()) return false;
    }
    return workspaces_stand_;
  }

 private:
  const guarded_buffer& operand(std::size_t i) const { return buffers_[buffer_of_[i]]; }

  void run_part(const box& part) {
    const std::vector<access> touched = accesses_of(g_, o_, part);
    bound_operands operands;
    std::uintptr_t all = 16;
    for (std::size_t i = 0; i < what_.size(); ++i) {
      std::byte* const at = operand(i).data() + pitches_of(g_.tensors[what_[i]], touched[i].where).offset;
      all |= reinterpret_cast<std::uintptr_t>(at);
      operands.data.push_back(at);
    }
    const auto alignment = static_cast<std::uint32_t>(all & (~all + 1));
    const engine chosen = choose_engine(on_, g_, o_, part, alignment, workspace_cap);
    const guarded_buffer workspace(chosen.choice.workspace_bytes, 0);
    operands.workspace = workspace.data();
    chosen.bind(operands)();
    check(cudaStreamSynchronize(on_.compute().stream));
    workspaces_stand_ = workspaces_stand_ && workspace.guards_stand();
  }

  session& on_;
  const graph& g_;
  const op& o_;
  calling how_;
  std::vector<tensor_id> what_;
  std::vector<std::size_t> buffer_of_;
  std::vector<guarded_buffer> buffers_;
  bool workspaces_stand_ = true;
};

bool has_slices(const graph& g, const op& o, std::uint32_t parts) {
  try {
    static_cast<void>(accesses_of(g, o, batch_part(domain_of(g, o).batch.end, 0, parts)));
    return true;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

void expect_right(session& on, const graph& g, const op& o, const calling& how, double tolerance,
                  const std::vector<reference::values>& values, const std::string& label) {
  const std::string where = label + " " + o.name;
  std::vector<reference::values> in;
  for (const tensor_id id : o.in) in.push_back(values[id]);
  const std::vector<reference::values> expected = reference::execute(g, o, in);
  call first(on, g, o, how), second(on, g, o, how);
  first.run(values);
  second.run(values);
  for (std::size_t i = 0; i < o.out.size(); ++i) {
    const tensor& t = g.tensors[o.out[i]];
    const std::vector<std::byte> bytes = first.output(i);
    EXPECT_EQ(bytes, second.output(i)) << where << ": other bits of " << t.name << " a second time";
    const double error = relative_error(from_memory(t, bytes), expected[i]);
    const double bound = is_floating(t.type) ? tolerance : 0.0;
    EXPECT_LE(error, bound) << where << ": " << t.name;
    EXPECT_FALSE(std::isnan(error)) << where << ": " << t.name;
  }
  for (std::size_t i = 0; i < o.in.size(); ++i) {
    EXPECT_TRUE(first.input_stands(i, values)) << where << ": wrote to " << g.tensors[o.in[i]].name;
  }
  EXPECT_TRUE(first.guards_stand()) << where << ": wrote beside an operand";
}

}  // namespace

std::vector<reference::values> values_of(const graph& g, std::uint64_t seed) {
  std::vector<reference::values> all(g.tensors.size());
  const auto keep = [&](tensor_id id, reference::values values) {
    for (double& value : values) value = rounded(g.tensors[id].type, value);
    all[id] = std::move(values);
  };
  for (auto& [id, values] : reference::numbers_for(g, seed)) keep(id, std::move(values));
  for (const op& o : g.ops) {
    if (!o.repeatable) continue;  // an update: readers before it see the old value
    std::vector<reference::values> in;
    for (const tensor_id id : o.in) in.push_back(all[id]);
    std::vector<reference::values> out = reference::execute(g, o, in);
    for (std::size_t i = 0; i < out.size(); ++i) keep(o.out[i], std::move(out[i]));
  }
  return all;
}

void expect_operators_right(session& on, const graph& g, const calling& how, double tolerance,
                            const std::string& label) {
  ASSERT_EQ(defect_of(g), std::nullopt) << label;
  const std::vector<reference::values> values = values_of(g, 20 + how.parts);
  for (const op& o : g.ops) {
    if (how.parts > 1 && !has_slices(g, o, how.parts)) continue;
    expect_right(on, g, o, how, tolerance, values, label);
  }
}

}  // namespace um::gpu_tests
