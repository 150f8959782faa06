// Every kind of operator is everywhere that docs/contributing/adding.md says: in the table of cases, and for
// each row of that a file, extents, parts, a cost, values and a gradient. Engines need no test here: without
// one for every kind backends/cuda/operators.cpp does not compile, and the tests on a GPU run the same rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>

#include "core/access.hpp"
#include "core/planner.hpp"
#include "harness/json/json.hpp"
#include "networks/builder.hpp"
#include "simulator/roofline.hpp"
#include "tests/reference/cases.hpp"
#include "tests/reference/reference.hpp"

namespace um::reference {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(std::string(UM_SOURCE_FOLDER) + "/" + path);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::set<std::string> every_name() {
  std::set<std::string> names;
  for (const op_attributes& kind : every_kind()) names.emplace(kind_of(kind));
  return names;
}

TEST(EveryKind, HasANameOfItsOwnAndACase) {
  EXPECT_EQ(every_name().size(), every_kind().size());
  std::set<std::string> seen;
  for (const operator_case& c : operator_cases()) seen.emplace(kind_of(c.what));
  EXPECT_EQ(seen, every_name());
}

class EveryCase : public testing::TestWithParam<std::size_t> {
 protected:
  const operator_case it = operator_cases().at(GetParam());
  const graph g = graph_of(it);
};

TEST_P(EveryCase, GoesThroughAFile) {
  ASSERT_EQ(defect_of(g), std::nullopt);
  const graph again = graph_from_json(to_json(g), "a case");
  EXPECT_EQ(again.ops[0].attributes, it.what);
  EXPECT_EQ(to_json(again), to_json(g));
}

// Along each axis halves are allowed, and then cover what the whole touches; or refused in one line.
TEST_P(EveryCase, SaysWhatPartsTouch) {
  const op& o = g.ops[0];
  const box all = iteration_domain(g, o);
  for (const auto range : {&box::batch, &box::channel, &box::row, &box::reduction}) {
    if ((all.*range).end < 2) continue;
    std::array<box, 2> halves;
    for (std::uint32_t i = 0; i < 2; ++i) halves.at(i).*range = part_of((all.*range).end, i, 2);
    try {
      const std::vector<access> whole = accesses_of(g, o), first = accesses_of(g, o, halves[0]),
                                second = accesses_of(g, o, halves[1]);
      ASSERT_EQ(first.size(), whole.size());
      for (std::size_t i = 0; i < whole.size(); ++i) {
        const byte_count bytes = bytes_of(g.tensors[whole[i].tensor], whole[i].where);
        EXPECT_GE(bytes_of(g.tensors[whole[i].tensor], first[i].where) +
                      bytes_of(g.tensors[whole[i].tensor], second[i].where),
                  bytes)
            << "operand " << i;
      }
      EXPECT_EQ(work_of(g, o, halves[0]).flops + work_of(g, o, halves[1]).flops, work_of(g, o).flops);
    } catch (const std::invalid_argument& reason) {
      EXPECT_EQ(std::string(reason.what())
                    .rfind("operator op (" + std::string(kind_of(o.attributes)) + ") cannot", 0),
                0U)
          << reason.what();
    }
  }
}

TEST_P(EveryCase, HasACost) {
  EXPECT_GT(work_of(g, g.ops[0]).written, 0U);
  for (const op_cost& cost :
       estimate(g, machine_from_json(text_of("results/machines/h200.json"), "h200.json")))
    EXPECT_GT(cost.time, 0);
}

TEST_P(EveryCase, HasValuesInDoublePrecision) {
  if (std::holds_alternative<opaque>(it.what.value)) {  // of which nothing is known
    EXPECT_THROW(execute(g, g.ops[0], std::vector<values>{values(288)}), std::invalid_argument);
    return;
  }
  std::vector<values> in;
  const auto given = numbers_for(g, 7);
  for (const tensor_id id : g.ops[0].in) in.push_back(given.at(id));
  const std::vector<values> out = execute(g, g.ops[0], in);
  ASSERT_EQ(out.size(), g.ops[0].out.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(static_cast<std::int64_t>(out[i].size()), element_count(g.tensors[g.ops[0].out[i]].shape));
    EXPECT_TRUE(std::ranges::all_of(out[i], [](double v) { return std::isfinite(v); })) << i;
  }
}

// Of what training makes of a network's layers: gradients, losses and updates come after them, casts and
// given statistics have none, and opaque ones bring theirs.
bool is_no_layer(const op_attributes& what) {
  const std::string_view kind = kind_of(what);
  constexpr std::array<std::string_view, 7> without{
      "cast",           "normalize", "softmax_cross_entropy", "softmax_cross_entropy_gradient", "sgd_update",
      "optimizer_step", "opaque"};
  return kind.find("_backward") != std::string_view::npos ||
         std::ranges::find(without, kind) != without.end();
}

// Operands written by an operator of their own, since a sum passes its gradient on as it is.
graph layer_of(const operator_case& c) {
  graph g{"one", {}, {}};
  op o{"op", c.what, {}, {}, true, std::nullopt};
  for (const operand_of& t : c.in) {
    const std::string name = "t" + std::to_string(g.tensors.size() / 2);
    const auto given = append_tensor(g, {name + ".given", t.shape, t.type, role::input});
    o.in.push_back(append_tensor(g, {name + ".y", t.shape, t.type, role::activation}));
    g.ops.push_back({name, relu{}, {given}, {o.in.back()}, true, std::nullopt});
  }
  for (std::size_t i = 0; i < c.out.size(); ++i) {
    o.out.push_back(append_tensor(g, {"out" + std::to_string(i), c.out[i].shape, c.out[i].type,
                                      i == 0 ? role::output : role::activation}));
  }
  g.ops.push_back(std::move(o));
  return g;
}

// Of the sum of y * dy with respect to every element of every input, by differences.
class EveryLayer : public EveryCase {};

TEST_P(EveryLayer, HasTheGradientOfItsValues) {
  const graph forward = layer_of(it);
  graph trained = forward;
  const tensor_id y = trained.ops.back().out[0];
  trained.tensors[y].role = role::activation;
  const tensor_id dy = append_tensor(trained, {"dy", trained.tensors[y].shape, dtype::f32, role::input});
  std::vector<tensor_id> inputs;
  for (tensor_id id = 0; id < forward.tensors.size(); ++id) {
    if (forward.tensors[id].role == role::input) inputs.push_back(id);
  }
  append_backward(trained, y, dy, inputs, false);
  ASSERT_EQ(defect_of(trained), std::nullopt);
  auto given = numbers_for(trained, 11);
  for (const tensor_id id : inputs) {  // behind a ReLU: away from where it bends
    for (double& v : given.at(id)) v = std::abs(v) + 0.125;
  }
  const auto all = execute(trained, given);
  const auto scalar = [&](const std::map<tensor_id, values>& at) {
    const values out = execute(forward, at).at(y);
    double sum = 0;
    for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * given.at(dy)[i];
    return sum;
  };
  constexpr double step = 1e-5, bound = 1e-7;
  for (const tensor_id id : inputs) {
    const std::string name = "t" + std::to_string(id / 2) + ".dgiven";
    const auto found = std::ranges::find(trained.tensors, name, &tensor::name);
    ASSERT_NE(found, trained.tensors.end()) << name;
    const values& gradient = all.at(static_cast<tensor_id>(found - trained.tensors.begin()));
    std::map<tensor_id, values> moved = given;
    for (std::size_t i = 0; i < gradient.size(); i += std::max<std::size_t>(1, gradient.size() / 12)) {
      const double value = given.at(id)[i];
      moved[id][i] = value + step;
      const double above = scalar(moved);
      moved[id][i] = value - step;
      const double below = scalar(moved);
      moved[id][i] = value;
      EXPECT_NEAR(gradient[i], (above - below) / (2 * step), bound) << name << " at " << i;
    }
  }
}

std::vector<std::size_t> all_cases() {
  std::vector<std::size_t> all(operator_cases().size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}
std::vector<std::size_t> layers() {
  std::vector<std::size_t> all = all_cases();
  std::erase_if(all, [](std::size_t i) { return is_no_layer(operator_cases()[i].what); });
  return all;
}
const auto name_of_case = [](const auto& which) {
  return std::string(kind_of(operator_cases()[which.param].what)) + "_" + std::to_string(which.param);
};
INSTANTIATE_TEST_SUITE_P(Reference, EveryCase, testing::ValuesIn(all_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Reference, EveryLayer, testing::ValuesIn(layers()), name_of_case);

}  // namespace
}  // namespace um::reference
