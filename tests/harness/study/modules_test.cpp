#include "harness/study/modules.hpp"

#include <gtest/gtest.h>

namespace um {
namespace {

graph chain_of(const std::vector<std::string>& names) {
  graph g;
  for (const std::string& name : names) {
    const auto t = static_cast<tensor_id>(g.tensors.size());
    g.tensors.push_back({.name = name, .shape = {1, 1, 1, 1 << 18}, .role = role::activation});
    g.ops.push_back({name, relu{}, {}, {t}, true, std::nullopt});
  }
  return g;
}

action computed(op_id o, box part = {}) {
  return compute{.op = o, .part = part};
}

memory_plan make_plan(const graph& g, std::vector<action> actions) {
  return {.residences = std::vector<residence>(g.tensors.size(), residence::device),
          .actions = std::move(actions)};
}

TEST(Modules, EachActivationIsInOneColumn) {
  const graph g = chain_of({"a:mm", "b:relu", "c:mm", "d:add", "e:add"});
  memory_plan plan =
      make_plan(g, {computed(0), computed(1), computed(2), computed(3, batch_part(4, 0, 2)), computed(4),
                    discard{0, {}}, evict{1, {}}, prefetch{1, {}}, computed(0), computed(3)});
  plan.residences[4] = residence::host;
  const auto rows = modules_of(g, plan);
  ASSERT_EQ(rows.size(), 5U);
  const byte_count size = 1 << 20;
  EXPECT_EQ(rows[0].recomputed_bytes, size);
  EXPECT_EQ(rows[1].offloaded_bytes, size);
  EXPECT_EQ(rows[2].kept_bytes, size);
  EXPECT_EQ(rows[3].split_bytes, size);
  EXPECT_EQ(rows[4].offloaded_bytes, size);
  for (const module_row& row : rows)
    EXPECT_EQ(row.recomputed_bytes + row.offloaded_bytes + row.split_bytes + row.kept_bytes, size)
        << row.module;
}

TEST(Modules, LayersThatAreTreatedAlikeShareALine) {
  const graph g = chain_of({"h.0.mlp:mm", "h.1.mlp:mm", "h.2.mlp:mm", "h.4.mlp:mm", "sum"});
  const std::string text =
      module_table(modules_of(g, make_plan(g, {computed(0), computed(1), computed(2), computed(3),
                                               computed(4), discard{1, {}}, computed(1)})));
  EXPECT_EQ(text,
            "module          compute again         offload             cut            keep\n"
            "h.[0,2,4].mlp                                                        3.00 MiB\n"
            "h.1.mlp              1.00 MiB\n"
            "(the model)                                                          1.00 MiB\n");
}

TEST(Modules, NamesWithoutModulesHaveNoTable) {
  const graph g = chain_of({"conv1.y"});
  EXPECT_EQ(module_table(modules_of(g, make_plan(g, {computed(0)}))), "");
}

}  // namespace
}  // namespace um
