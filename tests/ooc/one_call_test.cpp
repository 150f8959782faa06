// Calls of the library as plans: parts within the budget, and addresses in the caller's memory.
#include "ooc/one_call.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "planners/ooc_cudnn.hpp"

namespace {

using namespace um;
using namespace um::ooc;

machine some_machine() {
  machine m;
  m.name = "test";
  m.fp32_flops_per_s = 10'000'000'000'000;
  m.device_bytes_per_s = 500'000'000'000;
  m.link_to_device_bytes_per_s = m.link_to_host_bytes_per_s = m.link_both_bytes_per_s = 12'000'000'000;
  m.launch_ns = 4'000;
  m.copy_ns = 10'000;
  return m;
}

// Addresses that nobody follows.
std::byte* at(std::uintptr_t address) {
  return reinterpret_cast<std::byte*>(address);
}

constexpr std::uintptr_t x_at = 0x10'0000'0000, w_at = 0x20'0000'0000, y_at = 0x30'0000'0000;

one_call convolution_of(std::int64_t images) {
  one_call c;
  c.what = ooc_call::kind::forward;
  c.g.tensors = {{"x", {images, 64, 56, 56}, dtype::f32, role::input},
                 {"w", {64, 64, 3, 3}, dtype::f32, role::parameter},
                 {"y", {images, 64, 56, 56}, dtype::f32, role::output}};
  c.g.ops = {{"convolution", convolution{1, 1, 1, 1}, {0, 1}, {2}, true, {}}};
  c.place = {at(x_at), at(w_at), at(y_at)};
  return c;
}

bool lies_in(const address& a, std::uintptr_t begin, byte_count bytes) {
  return a.where == space::pinned && a.offset >= begin && a.offset < begin + bytes;
}

TEST(ooc_one_call, keeps_within_the_budget_and_the_callers_memory) {
  const one_call c = convolution_of(32);
  const byte_count x = bytes_of(c.g.tensors[0]), w = bytes_of(c.g.tensors[1]), y = bytes_of(c.g.tensors[2]);
  for (const byte_count budget : {4 * (x + y), (x + y) / 2, (x + y) / 8}) {
    const planned_call plan = planned(c, {false, false, false}, some_machine(), budget, MiB);
    EXPECT_LE(plan.steps.device_arena_bytes, budget);
    EXPECT_EQ(plan.steps.pinned_arena_bytes, 0U);
    EXPECT_TRUE(plan.parts > 1 || budget > x + y);
    byte_count in = 0, out = 0;
    for (const step& s : plan.steps.steps) {
      for (const pitched_copy& copy : s.copies) {
        if (s.where == lane::to_device) {
          EXPECT_TRUE(lies_in(copy.from, x_at, x) || lies_in(copy.from, w_at, w));
          in += lies_in(copy.from, x_at, x) ? bytes_of(copy) : 0;
        } else {
          EXPECT_TRUE(lies_in(copy.to, y_at, y));
          out += bytes_of(copy);
        }
      }
    }
    EXPECT_EQ(out, y) << "every part of y once";
    EXPECT_GE(in, x);
  }
}

TEST(ooc_one_call, reads_and_writes_in_place_what_lies_on_the_device) {
  const one_call c = convolution_of(4);
  const planned_call plan = planned(c, {true, true, true}, some_machine(), GiB, MiB);
  EXPECT_EQ(plan.parts, 1U);
  ASSERT_EQ(plan.steps.steps.size(), 1U);
  EXPECT_TRUE(plan.steps.steps[0].gathers.empty() && plan.steps.steps[0].scatters.empty());
  const std::vector<operand>& operands = plan.steps.steps[0].operands;
  EXPECT_EQ(operands[0].at.offset, x_at);
  EXPECT_EQ(operands[1].at.offset, w_at);
  EXPECT_EQ(operands[2].at.offset, y_at);
}

TEST(ooc_one_call, says_what_it_takes_where_nothing_fits) {
  try {
    planned(convolution_of(4), {false, false, false}, some_machine(), KiB, MiB);
    FAIL();
  } catch (const infeasible& refused) {
    EXPECT_NE(std::string(refused.what()).find("the budget is 1.00 KiB"), std::string::npos)
        << refused.what();
  }
}

TEST(ooc_one_call, refuses_extents_that_do_not_belong_together) {
  one_call c = convolution_of(4);
  c.g.tensors[2].shape.h = 57;
  EXPECT_THROW(planned(c, {false, false, false}, some_machine(), GiB, MiB), std::invalid_argument);
}

}  // namespace
