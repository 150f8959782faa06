// The reference's optimizer_step against the numbers of torch.optim (torch_optimizers.json, which
// tests/torch/test_optimizer.py makes).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "harness/json/fields.hpp"
#include "networks/passes.hpp"
#include "tests/reference/reference.hpp"

namespace um::reference {
namespace {

json kept() {
  const std::string file = std::string(UM_SOURCE_FOLDER) + "/tests/reference/torch_optimizers.json";
  return json::parse(std::ifstream(file));
}

optimizer_kind kind_named(const std::string& name) {
  for (const optimizer_kind kind : all_values<optimizer_kind>()) {
    if (to_text(kind) == name) return kind;
  }
  throw std::invalid_argument(name);
}

// Rates are floats here and doubles in torch: 1 - 0.999F is off by 1.3e-5.
constexpr double tolerance = 2e-6, tolerance_of_squares = 2e-5;

void expect_near(const values& found, const values& wanted, const std::string& where,
                 double within = tolerance) {
  ASSERT_EQ(found.size(), wanted.size()) << where;
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], wanted[i], within * std::max(1e-2, std::abs(wanted[i]))) << where << ' ' << i;
  }
}

TEST(Optimizers, AreThoseOfTorch) {
  const auto all = kept();
  const values start = all["w"];
  const auto count = static_cast<std::int64_t>(start.size());
  ASSERT_EQ(all["cases"].size(), all_values<optimizer_kind>().size());
  for (const auto& one : all["cases"]) {
    const std::string name = one["optimizer"];
    const graph g = with_optimizer_step({"one",
                                         {{"w", {1, count, 1, 1}, dtype::f32, role::parameter},
                                          {"dw", {1, count, 1, 1}, dtype::f32, role::parameter_gradient}},
                                         {}},
                                        kind_named(name));
    const op& step = g.ops.at(0);
    std::vector<values> in(step.in.size(), values(start.size()));
    in[0] = start;
    if (name == "adamw") in.back() = {0};
    for (const values gradient : all["gradients"]) {
      in[1] = gradient;
      const std::vector<values> out = execute(g, step, in);
      in[0] = out[0];
      for (std::size_t i = 1; i < out.size(); ++i) in[i + 1] = out[i];
    }
    expect_near(in[0], one["after"]["w"], name + " w");
    if (name != "sgd") expect_near(in[2], one["after"]["m"], name + " m");
    if (name == "adamw") expect_near(in[3], one["after"]["v"], name + " v", tolerance_of_squares);
  }
}

}  // namespace
}  // namespace um::reference
