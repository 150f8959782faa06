// Strategies of rules as files and as names.
#include "hints/hints.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "harness/io/errors.hpp"
#include "harness/json/input_files.hpp"
#include "harness/json/json.hpp"
#include "harness/study/experiment.hpp"
#include "tests/harness/samples.hpp"
#include "tests/refusal.hpp"

namespace um {
namespace {

constexpr const char* mine = R"({
  "schema": 1, "kind": "hints", "name": "mine", "summary": "by hand",
  "rules": [
    {"name": "weights", "roles": ["parameter"], "advise": "preferred_device"},
    {"name": "fetch", "prefetch": {"operands": "inputs", "ahead_operators": 3}},
    {"name": "away", "roles": ["activation"], "use": "needed_again",
     "evict": {"when": "after_use", "gap_operators": 5, "by": "prefetch_to_host"}},
    {"name": "dead", "discard": {"prefetch": true}}
  ]})";

std::string with_replaced(const std::string& what, const std::string& by) {
  std::string text = mine;
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

void expect_refused(const std::string& text, std::vector<std::string> words) {
  words.emplace_back("mine.json");
  expect_words(refusal<input_error>([&] { hint_strategy_from_json(text, "mine.json"); }), words);
}

TEST(HintsJson, EveryRowReadsBackEqual) {
  for (const hint_strategy& s : hint_table()) {
    const std::string text = to_json(s);
    EXPECT_EQ(hint_strategy_from_json(text, "row"), s) << text;
  }
}

TEST(HintsJson, AFileSaysWhatItMeans) {
  const hint_strategy s = hint_strategy_from_json(mine, "mine.json");
  ASSERT_EQ(s.rules.size(), 4U);
  EXPECT_EQ(s.rules[0].tensors.roles, std::vector<role>{role::parameter});
  EXPECT_EQ(std::get<prefetch_rule>(s.rules[1].policy).ahead, 3);
  EXPECT_EQ(std::get<evict_rule>(s.rules[2].policy).gap, 5);
  EXPECT_EQ(s.rules[2].tensors.use, tensor_use::needed_again);
  EXPECT_TRUE(std::get<discard_rule>(s.rules[3].policy).repopulates);
}

TEST(HintsJson, ARefusalNamesTheRuleAndTheMend) {
  expect_refused(with_replaced("preferred_device", "prefered_device"),
                 {"rules[0]", "prefered_device", "preferred_device"});
  expect_refused(with_replaced("\"parameter\"", "\"workspace\""),
                 {"rules[0].roles[0]", "device arena", "drop"});
  expect_refused(with_replaced("ahead_operators", "ahead_ops"), {"rules[1]", "ahead_operators"});
  expect_refused(with_replaced("\"ahead_operators\": 3", "\"ahead_operators\": -1"), {"rules[1]", "-1"});
  expect_refused(with_replaced(R"("ahead_operators": 3)", R"("ahead_operators": 3, "ahead": "room")"),
                 {"rules[1]", "give one of"});
  expect_refused(with_replaced(R"("ahead_operators": 3)", R"("ahead": "now")"), {"rules[1]", "now", "room"});
  expect_refused(with_replaced(R"(, "advise": "preferred_device")", ""),
                 {"rules[0]", "decides nothing", "prefetch"});
  expect_refused(
      with_replaced(R"("discard": {"prefetch": true})", R"("discard": {"prefetch": true}, "cut": {})"),
      {"rules[3]", "discard", "cut", "two rules"});
  expect_refused(with_replaced(R"("name": "dead")", R"("name": "fetch")"), {"rule fetch", "two rules"});
  expect_refused(with_replaced(R"("name": "dead")", R"("name": "Dead Ones")"), {"Dead Ones", "lower-case"});
  expect_refused(with_replaced(R"("discard": {"prefetch": true})", R"("search": {"trials": 3})"),
                 {"rule dead", "nothing to search", "evicts under pressure"});
  expect_refused(with_replaced("prefetch_to_host", "copy"), {"rules[2].evict.by", "copy", "twin"});
}

constexpr const char* picking = R"({
  "schema": 1, "kind": "hints", "name": "picking", "summary": "by name, size and operator",
  "rules": [
    {"name": "early", "names": ["conv1*.y", "pool?.y"], "least_bytes": 4194304,
     "evict": {"when": "after_use", "gap_operators": 5, "by": "prefetch_to_host"}},
    {"name": "kept", "read_by": ["convolution_backward_filter", "opaque:*attention*"], "written_by": ["max_pool"],
     "advise": "preferred_device"}
  ]})";

TEST(HintsJson, TensorsAreNamedByPatternSizeAndOperator) {
  const hint_strategy s = hint_strategy_from_json(picking, "picking.json");
  EXPECT_EQ(s.rules[0].tensors.names, (std::vector<std::string>{"conv1*.y", "pool?.y"}));
  EXPECT_EQ(s.rules[0].tensors.least_bytes, 4 * MiB);
  EXPECT_EQ(s.rules[1].tensors.read_by[1], "opaque:*attention*");
  EXPECT_EQ(s.rules[1].tensors.written_by, std::vector<std::string>{"max_pool"});
  EXPECT_EQ(hint_strategy_from_json(to_json(s), "again"), s);
}

TEST(HintsJson, AWeightCannotLeaveByTwin) {
  std::string text = with_replaced("prefetch_to_host", "twin");
  const std::string role = R"("roles": ["activation"])";
  text.replace(text.find(role), role.size(), R"("roles": ["parameter"])");
  expect_refused(text, {"rule away", "parameter", "activation"});
}

TEST(Rules, CanBeSwitchedOffByName) {
  const strategy_choice s = strategy_named("discard_prefetch,without=discard");
  EXPECT_EQ(s->row.name, "discard_prefetch,without=discard");
  const auto left = s->rules.value().rules;
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].name, "prefetch");
  for (const auto& [name, word] : {std::pair{"discard_prefetch,without=nothing", "prefetch, discard"},
                                   std::pair{"swap_all,without=fetch", "not made of rules"},
                                   std::pair{"discrd,without=x", "did you mean"}}) {
    expect_words(refusal<input_error>([&] { strategy_named(name); }), {word});
  }
}

TEST(Machines, AreLikeAGpuByItsName) {
  const std::vector<machine> all = load_machines(std::nullopt);
  for (const auto& [gpu, name] : {std::pair{"NVIDIA H200", "h200"},
                                  {"NVIDIA H200 NVL", "h200"},
                                  {"NVIDIA GH200 480GB", "gh200"},
                                  {"NVIDIA H100 80GB HBM3", "h100-sxm-80g"},
                                  {"NVIDIA H100 PCIe", "h100-pcie5-80g"},
                                  {"Tesla V100-SXM2-16GB", "v100-nvlink-power9"},
                                  {"NVIDIA TITAN V", "titan-v"},
                                  {"NVIDIA GeForce GTX 1080 Ti", "gtx1080ti-11g"},
                                  {"NVIDIA TITAN RTX", nullptr},
                                  {"unheard of", nullptr},
                                  {"", nullptr}}) {
    const machine* akin = find_machine_like(all, gpu);
    EXPECT_EQ(akin == nullptr, name == nullptr) << gpu;
    if (akin != nullptr && name != nullptr) {
      EXPECT_EQ(akin->name, name) << gpu;
    }
  }
}

struct rules_file : ::testing::Test {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("um_hints_test_" + std::to_string(::getpid()) + ".json");
  void write(const std::string& text) const { std::ofstream(path) << text; }
  ~rules_file() override { std::filesystem::remove(path); }
};

TEST_F(rules_file, TwoVersionsHaveTwoNames) {
  write(mine);
  const std::string before = rules_from_file(path.string()).name;
  EXPECT_EQ(before.rfind("mine#", 0), 0U);
  EXPECT_EQ(rules_from_file(path.string()).name, before);
  write(with_replaced("\"ahead_operators\": 3", "\"ahead_operators\": 4"));
  EXPECT_NE(rules_from_file(path.string()).name, before);
}

TEST_F(rules_file, TravelsIntoTheRecord) {
  write(mine);
  experiment e = sample_experiment();
  e.rules = without_rules(rules_from_file(path.string()), {"dead"});
  e.strategy = e.rules->name;
  e.strategy_knobs.clear();
  const cell work = complete_cell(e);
  EXPECT_EQ(work.settings.strategy_knobs.at("ahead"), 3);
  record r = make_record(work);
  r.result = outcome::crashed;
  r.reason = "made up";
  EXPECT_EQ(record_from_json(to_json(r), "line").rules, e.rules);
  EXPECT_NE(r.key.find("mine#"), std::string::npos);
  EXPECT_NE(r.key.find(",without=dead"), std::string::npos);
}

TEST_F(rules_file, MayBeNamedInASweepBesideIt) {
  write(mine);
  const std::string text =
      R"({"schema": 1, "name": "s", "grids": [{"network": "alexnet", "backend": "sim:h200",
    "strategy": ["device", ")" +
      path.filename().string() + R"(", "discard,without=discard"],
    "strategy_knobs": {"ahead": [1, 2]}}]})";
  const std::string source = (path.parent_path() / "sweep.json").string();
  const std::vector<cell> cells = expand(sweep_from_json(text, source), source);
  ASSERT_EQ(cells.size(), 4U);
  EXPECT_EQ(cells[1].settings.rules->rules.size(), 4U);
  EXPECT_EQ(cells[2].settings.strategy_knobs.at("ahead"), 2);
  EXPECT_EQ(cells[3].settings.strategy, "discard,without=discard");
}

}  // namespace
}  // namespace um
