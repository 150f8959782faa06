#include "harness/json/json.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "core/figures.hpp"
#include "harness/io/errors.hpp"
#include "harness/json/input_files.hpp"
#include "harness/process/collect.hpp"
#include "tests/harness/samples.hpp"
#include "tests/refusal.hpp"

namespace um {
namespace {

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

// The text, changed at one place, is refused with these words.
struct mistake {
  std::string what, by;
  std::vector<std::string> words;
};
void expect_mistakes_named(auto& from_json, const std::string& text, const std::vector<mistake>& mistakes) {
  for (const mistake& m : mistakes) {
    SCOPED_TRACE(m.by);
    expect_words(refusal<input_error>([&] { from_json(replaced(text, m.what, m.by), "f.json"); }), m.words);
  }
}

machine built_in_machine(const char* name) {
  return find_machine(load_machines(std::nullopt), name);
}

// Two operators that nobody knows, the first with all that can be said of one.
graph opaque_graph(bool cut) {
  graph g{"own", {}, {}};
  g.tensors = {{"x", {2, 3, 4, 1}, dtype::f32, role::input}, {"y", {2, 3, 4, 1}}, {"z", {2, 3, 4, 1}}};
  opaque what;
  what.label = "gelu";
  what.flops = 96;
  what.bytes = 192;
  if (cut) {
    what.products = true;
    what.duration = 1234;
    what.workspace_bytes = 4096;
    what.in = {batch_cut::part};
    what.out = {batch_cut::part};
  }
  g.ops = {{"act", what, {0}, {1}, false, may_alias{0, 0}}, {"again", what, {1}, {2}, true, std::nullopt}};
  return g;
}

// The catalogue, trained and not, with every fusion and every precision, in the standard order and in the
// other one.
std::vector<network_spec> networks_to_try() {
  struct level {
    fusion joined;
    precision trained, not_trained;
  };
  constexpr std::array levels{level{fusion::none, precision::fp32, precision::tf32},
                              level{fusion::fused, precision::tf32, precision::bf16},
                              level{fusion::lean, precision::bf16, precision::fp32}};
  std::vector<network_spec> all;
  for (const network_family& f : network_families()) {
    for (const level& l : levels) {
      all.push_back({.name = f.name,
                     .batch = 2,
                     .appends_sgd = true,
                     .fusion_mode = l.joined,
                     .arithmetic = l.trained});
      all.push_back(
          {.name = f.name, .mode = pass::inference, .fusion_mode = l.joined, .arithmetic = l.not_trained});
    }
    all.push_back({.name = f.name, .batch = 2, .order = memory_order::nhwc});
    all.push_back({.name = f.name,
                   .batch = 2,
                   .optimizer = optimizer_kind::adamw,
                   .keeps_masters = true,
                   .arithmetic = precision::bf16});
  }
  for (const bool cut : {false, true}) all.push_back(spec_of_file(opaque_graph(cut)));
  return all;
}

TEST(NetworkFile, IsNamedAfterItsContent) {
  const network_spec once = spec_of_file(opaque_graph(true)), again = spec_of_file(opaque_graph(true));
  EXPECT_EQ(once.name, again.name);
  EXPECT_NE(once.name, spec_of_file(opaque_graph(false)).name);
  EXPECT_TRUE(once.name.starts_with("own#"));
  EXPECT_EQ(once.batch, 2);
  EXPECT_EQ(once.mode, pass::inference);
}

plan_file sample_plan() {
  plan_file file;
  file.network = complete_and_build({.name = "conv", .batch = 4});
  file.strategy = "by-hand";
  file.strategy_knobs = {{"ahead", 3}};
  file.ratio = 1.25;
  file.footprint = 154320987;
  file.budget = 123456789;
  file.mode = run_mode::capped;
  file.packing_algorithm = packers::smartpool;
  const graph& g = *file.network.network;
  file.plan.residences.assign(g.tensors.size(), residence::managed);
  file.plan.actions = {advise{0, advice::preferred_host}, prefetch{0, {{2, 4}, {}, {0, 7}, {}}}};
  for (op_id o = 0; o < g.ops.size(); ++o) file.plan.actions.push_back(compute{o, {}, 4096});
  file.plan.joins = {1, 2};
  return file;
}

TEST(GraphJson, EveryNetworkReadsBackEqual) {
  std::set<std::size_t> kinds;
  for (const network_spec& spec : networks_to_try()) {
    const graph g = build_network(spec);
    const std::string text = to_json(g);
    const graph back = graph_from_json(text, "g.json");
    EXPECT_EQ(to_json(back), text) << spec.name;
    EXPECT_EQ(back.ops.size(), g.ops.size());
    for (const op& o : back.ops) kinds.insert(o.attributes.value.index());
  }
  EXPECT_EQ(kinds.size(), every_kind().size()) << "a kind whose attributes were not tried";
}

TEST(GraphJson, WhatIsLeftOutIsWhatIsUsual) {
  const graph g = graph_from_json(R"({"schema": 1, "kind": "graph", "name": "own", "precision": "fp32",
    "tensors": [{"name": "x", "shape": [2, 3, 1, 1], "use": "input"}, {"name": "y", "shape": [2, 3, 1, 1]}],
    "ops": [{"name": "act", "kind": "opaque", "label": "gelu", "flops": 6, "bytes": 48, "in": ["x"], "out": ["y"]}]})",
                                  "own.json");
  EXPECT_EQ(g.tensors[1].role, role::activation);
  EXPECT_EQ(g.tensors[0].type, dtype::f32);
  EXPECT_TRUE(g.ops[0].is_repeatable);
  const auto& what = std::get<opaque>(g.ops[0].attributes.value);
  EXPECT_EQ(what.duration, std::nullopt);
  EXPECT_TRUE(what.in.empty());
}

TEST(GraphJson, NamesWhatIsWrongWithAnOpaqueOperator) {
  expect_mistakes_named(graph_from_json, to_json(opaque_graph(true)),
                        {{"\"label\"", "\"labels\"", {"ops[0]", "label"}},
                         {"\"flops\": 96", "\"flops\": -1", {"ops[0].flops"}},
                         {"\"duration_ns\": 1234", "\"duration_ns\": -5", {"ops[0].duration_ns"}},
                         {"\"part\"", "\"prat\"", {"ops[0].cut.in[0]", "did you mean part?"}},
                         {"\"name\": \"again\"", "\"name\": \"act\"", {"ops[1].name", "two operators"}}});
}

TEST(GraphJson, NamesWhatIsWrong) {
  const std::string text = to_json(*complete_and_build({.name = "conv", .mode = pass::inference}).network);
  expect_mistakes_named(graph_from_json, text,
                        {{"\"stride\"", "\"strides\"", {"f.json", "ops[0]", "stride"}},
                         {"\"convolution\"", "\"convolutoin\"", {"did you mean convolution?"}},
                         {"\"repeatable\": true", "\"repeatable\": 1", {"repeatable", "true nor"}},
                         {"\"type\": \"f32\"", "\"type\": \"f33\"", {"tensors[0].type", "did you mean f32?"}},
                         {text, "{", {"f.json", "not JSON", "line 1"}},
                         {text, "[]", {"f.json", "not an object"}}});
}

TEST(PlanJson, KeepsWhatIsComputedAgainFromTheFirstTime) {
  plan_file file = sample_plan();
  file.network = complete_and_build({.name = "resnet20_cifar", .batch = 2, .fusion_mode = fusion::fused});
  const graph& g = *file.network.network;
  file.plan = {std::vector<residence>(g.tensors.size(), residence::device), {}, {}};
  for (op_id o = 0; o < g.ops.size(); ++o) file.plan.actions.push_back(compute{o, {}});
  const auto norm = std::ranges::find_if(g.ops, [](const op& o) { return has_kind<batch_norm>(o); });
  file.plan.actions.push_back(compute{static_cast<op_id>(norm - g.ops.begin()), {}, as_profiled, true});
  EXPECT_EQ(plan_from_json(to_json(file), "p.json").plan, file.plan);
}

TEST(PlanJson, ReadsBackEqual) {
  const plan_file file = sample_plan();
  const plan_file back = plan_from_json(to_json(file), "p.json");
  EXPECT_EQ(back.plan, file.plan);
  EXPECT_EQ(to_json(back), to_json(file));
}

// The text of the only part of an action.
std::string part_in(const std::string& text) {
  const std::size_t begin = text.find("\"part\"");
  return text.substr(begin, text.find('}', begin) + 1 - begin);
}

TEST(PlanJson, NamesWhatIsWrong) {
  const std::string text = to_json(sample_plan()), part = part_in(text);
  const std::string first = "\"do\": \"compute\",\n   \"what\": \"";
  expect_mistakes_named(plan_from_json, text,
                        {{"\"managed\"", "\"mangaed\"", {"homes", "did you mean managed?"}},
                         {"123456789,", "9223372036854775808,", {"budget_bytes", "9223372036854775808"}},
                         {"123456789,", "1e400,", {"f.json"}},
                         {part, "\"part\": {\"batch\": [2, 2]}", {"actions[1]", "part.batch", "[0, 8]"}},
                         {part, "\"part\": {\"batch\": [2, 5]}", {"2:5", "4 elements"}},
                         {first, first + "x", {"actions[2].what", "no operator"}},
                         {"\"smartpool\"", "\"smart_pool\"", {"placed_by", "did you mean smartpool?"}},
                         {"\"ratio\": 1.25,", "", {"\"ratio\" is missing"}},
                         {"\"kind\"", "\"extra\": 0, \"kind\"", {"unknown field \"extra\""}},
                         {"\"kind\"", "\"ratio\": 2, \"kind\"", {"\"ratio\" is given twice"}}});
}

TEST(PlanJson, RefusesAPlanThatComputesNothing) {
  plan_file file = sample_plan();
  file.plan.actions.pop_back();
  expect_words(refusal<input_error>([&] { plan_from_json(to_json(file), "p.json"); }),
               {"p.json", "the plan is wrong"});
}

TEST(MachineJson, EmbeddedMachinesReadBackEqual) {
  const auto machines = load_machines(std::nullopt);
  ASSERT_GE(machines.size(), 2U);
  for (const machine& m : machines) {
    const std::string text = to_json(m);
    EXPECT_EQ(to_json(machine_from_json(text, "m.json")), text);
    EXPECT_GT(m.device_bytes, 0U);
  }
}

TEST(MachineJson, NamesWhatIsWrong) {
  expect_mistakes_named(machine_from_json, to_json(load_machines(std::nullopt).front()),
                        {{"\"host_bytes\": ", "\"host_bytes\": -", {"f.json", "host_bytes"}},
                         {"\"device_bytes\": ", "\"device_bytes\": 0, \"was\": ", {"device_bytes", "0"}},
                         {"\"calibrated\": false", "\"calibrated\": null", {"calibrated"}},
                         {"\"launch_ns\"", "\"lunch_ns\"", {"\"launch_ns\" is missing"}},
                         {"\"name\": \"", "\"name\": \"a/b ", {"name", "lower-case"}},
                         {"\"estimated\": [", "\"estimated\": [\"speed\",", {"estimated[0]", "speed"}}});
}

// As after a calibration that could measure three figures.
measure::calibration sample_calibration() {
  measure::calibration made;
  made.results.spread_of_figure = {{"link_to_device_bytes_per_s", {5, 1.0e10, 1.25e10, 1.5e10}},
                                   {"uvm.fault_ns", {3, 10, 20.6, 30}},
                                   {"uvm.batch_granules", {1, 9.2, 9.2, 9.2}}};
  made.results.notes = {"uvm.batch_ns needs batches_nowhere"};
  made.samples = {{"link_to_device", {5, 1, 2, 3}}};
  return made;
}

TEST(json, measured_figures_replace_those_of_a_machine) {
  const measure::calibration found = sample_calibration();
  const machine base = built_in_machine("p100-pcie3-16g");
  const machine made = with_measured_figures(base, found.results);
  EXPECT_EQ(made.link_to_device_bytes_per_s, 12'500'000'000U);
  EXPECT_EQ(made.uvm.fault_ns, 21);
  EXPECT_EQ(made.uvm.batch_granules, 9U);
  EXPECT_EQ(made.link_to_host_bytes_per_s, base.link_to_host_bytes_per_s);
  const auto estimated = [&](const char* name) {
    return std::count(made.estimated.begin(), made.estimated.end(), name) == 1;
  };
  EXPECT_TRUE(estimated("link_to_host_bytes_per_s"));
  EXPECT_TRUE(estimated("uvm.batch_ns"));
  EXPECT_FALSE(estimated("uvm.fault_ns"));
  EXPECT_FALSE(estimated("link_to_device_bytes_per_s"));
}

TEST(json, a_calibrated_machine_is_as_wide_as_the_samples_of_its_costs) {
  machine base = built_in_machine("p100-pcie3-16g");
  base.uncertain_figures = {
      {"uvm.fault_ns", 1, 1000}, {"uvm.evict_ns", 7000, 40000}, {"uvm.chunk_ns", 0, base.uvm.chunk_ns + 9}};
  measure::figures found;
  found.spread_of_figure = {{"link_to_device_bytes_per_s", {5, 0.9e10, 1.25e10, 1.5e10, 1.0e10, 1.2e10}},
                            {"uvm.fault_ns", {9, 10, 20.6, 30, 22.4, 28}},
                            {"uvm.granule_ns", {9, -30, 0, 30, -5, 28}},
                            {"uvm.service_ns", {9, 5000, 5000, 5000, 5000, 5000}},
                            {"uvm.evict_ns", {9, 9000, 10000, 60000, 11000, 50000}},
                            {"uvm.batch_granules", {9, 10, 20, 30, 15, 25}}};
  found.inferred = {"uvm.evict_ns"};
  const machine made = with_measured_figures(base, found);
  using both = std::pair<std::int64_t, std::int64_t>;
  const auto width = [&](const char* name) {
    const auto at = std::ranges::find(made.uncertain_figures, name, &uncertain_figure::name);
    return at == made.uncertain_figures.end() ? both{} : both{at->min_value, at->max_value};
  };
  EXPECT_EQ(width("link_to_device_bytes_per_s"), both(10'000'000'000, 12'500'000'000))
      << "from the figure on";
  EXPECT_EQ(width("uvm.fault_ns"), both(21, 28)) << "measured: what was reasoned before is gone";
  EXPECT_EQ(width("uvm.granule_ns"), both(0, 28)) << "no time is less";
  EXPECT_EQ(width("uvm.service_ns"), both(0, 0));
  EXPECT_EQ(width("uvm.batch_granules"), both(0, 0)) << "no cost";
  EXPECT_EQ(width("uvm.evict_ns"), both(7000, 50000)) << "inferred: both";
  EXPECT_EQ(width("uvm.chunk_ns"), both(0, base.uvm.chunk_ns + 9)) << "not measured: as before";
  EXPECT_EQ(std::ranges::count(made.estimated, "uvm.evict_ns"), 1);
  const machine read = machine_from_json(to_json(made, {found, {}, {}}), "m.json");
  EXPECT_EQ(to_json(read), to_json(made));
  EXPECT_LT(with_fastest_figures(read).uvm.evict_ns, with_slowest_figures(read).uvm.evict_ns);
}

TEST(json, what_could_not_be_measured_is_no_faster_than_what_was) {
  machine base = built_in_machine("h200");
  const machine made = with_measured_figures(base, sample_calibration().results);
  EXPECT_EQ(made.link_both_bytes_per_s, made.link_to_device_bytes_per_s + made.link_to_host_bytes_per_s);
  EXPECT_LE(made.uvm.remote_read_bytes_per_s, made.link_to_device_bytes_per_s);
  EXPECT_EQ(made.uvm.remote_write_bytes_per_s, base.uvm.remote_write_bytes_per_s);
}

TEST(json, a_calibrated_machine_file_is_a_machine_file) {
  const measure::calibration found = sample_calibration();
  const machine made = with_measured_figures(built_in_machine("h200"), found.results);
  const std::string text = to_json(made, found);
  EXPECT_EQ(to_json(machine_from_json(text, "m.json")), to_json(made));
  EXPECT_NE(text.find("batches_nowhere"), std::string::npos);
  expect_mistakes_named(machine_from_json, text, {{"\"typical\"", "\"tipical\"", {"f.json: calibration."}}});
}

TEST(json, a_machine_file_names_the_figure_of_the_driver_that_is_wrong) {
  const std::string text = to_json(built_in_machine("h200"));
  expect_mistakes_named(
      machine_from_json, text,
      {{"\"batch_granules\": 24", "\"batch_granules\": 257", {"uvm.batch_granules", "256"}},
       {"\"host_chunk_bytes\": 2097152", "\"host_chunk_bytes\": 8192", {"uvm.host_chunk_bytes", "65536"}},
       {"\"batch_ns\"", "\"batch_us\"", {"uvm", "batch_ns", "missing"}},
       {"\"uvm.evict_ns\"", "\"uvm.evct_ns\"", {"uvm.evct_ns", "evict_ns"}}});
  for (const char* share : {"prefetch_to_host_beside_percent", "prefetch_to_host_beside_faults_percent",
                            "faults_beside_prefetch_percent"}) {
    const std::string name = std::string("\"") + share + "\": ";
    expect_mistakes_named(machine_from_json, text,
                          {{name, name + "10", {share, "100"}},  // 1038 percent
                           {name, name + "-", {share}}});
  }
}

TEST(MachineJson, WithoutMatrixUnitsTheirRatesMayBeAbsent) {
  machine m = built_in_machine("p100-pcie3-16g");
  EXPECT_EQ(m.tf32_flops_per_s, 0U);
  const std::string text = replaced(to_json(m), " \"tf32_flops_per_s\": 0,\n", "");
  EXPECT_EQ(machine_from_json(text, "m.json").tf32_flops_per_s, 0U);
  m.bf16_flops_per_s = 5;
  EXPECT_EQ(machine_from_json(to_json(m), "m.json").bf16_flops_per_s, 5U);
}

TEST(MachineJson, WhatWasFittedElsewhereIsBorrowedWhereItIsNotSaid) {
  const machine own = built_in_machine("h200");
  EXPECT_TRUE(own.borrowed.empty()) << "what is fitted is fitted there";
  const std::string text =
      replaced(to_json(own), " \"twin_copy_percent\": 92\n", " \"twin_copy_percent\": 90\n");
  EXPECT_EQ(machine_from_json(text, "m.json").uvm.twin_copy_percent, 90U);
  const machine lent = machine_from_json(replaced(to_json(own), " \"slice_ns\": 20000,\n", ""), "m.json");
  EXPECT_EQ(lent.borrowed, std::vector<std::string>{"slice_ns"});
  EXPECT_EQ(lent.slice_ns, own.slice_ns);
  EXPECT_EQ(machine_from_json(to_json(lent), "m.json").borrowed, lent.borrowed);
}

TEST(RecordJson, SaysWhoseStrategyAndFiguresItIs) {
  record r = make_record(sample_cell());
  EXPECT_EQ(r.strategy_family, family::managed);
  EXPECT_EQ(r.same_bits, true);
  r.result = outcome::crashed;
  r.reason = "made up";
  const std::string line = to_json(r);
  EXPECT_NE(line.find(R"("family":"managed","bits":"same")"), std::string::npos) << line;
  EXPECT_EQ(to_json(record_from_json(line, "line")), line);
}

TEST(RecordJson, ReadsBackEqual) {
  const record r = sample_record();
  const std::string line = to_json(r);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const record back = record_from_json(line, "line");
  EXPECT_EQ(to_json(back), line);
  EXPECT_EQ(back.samples, r.samples);
  EXPECT_EQ(back.gpu_and_host.after, r.gpu_and_host.after);
  EXPECT_EQ(kind_of_line(line, "line"), line_kind::record);
}

TEST(RecordJson, ABandAndACycleAreKeptWhereThereAreSome) {
  record r = make_record(sample_cell());
  r.result = outcome::crashed;
  r.reason = "made up";
  EXPECT_EQ(to_json(r).find("band_ns"), std::string::npos);
  EXPECT_EQ(to_json(r).find("cycle"), std::string::npos);
  r.band = {5, 9};
  r.cycle = {3, 7, 6};
  const record back = record_from_json(to_json(r), "line");
  EXPECT_EQ(back.band->low, 5);
  EXPECT_EQ(back.band->high, 9);
  EXPECT_EQ(back.cycle->period, 3U);
  EXPECT_EQ(back.cycle->mean, 7);
  EXPECT_EQ(back.cycle->median, 6);
  r.cycle->period = 0;
  EXPECT_NE(to_json(r).find(R"("period":null)"), std::string::npos);
  EXPECT_EQ(record_from_json(to_json(r), "line").cycle->period, 0U);
}

TEST(json, a_machine_file_keeps_paces_and_widths) {
  const machine h = built_in_machine("h200-calibrated");
  ASSERT_FALSE(h.operators.empty());
  const machine back = machine_from_json(to_json(h), "file");
  EXPECT_EQ(back.operators.size(), h.operators.size());
  EXPECT_EQ(to_json(back), to_json(h));
  machine other = h;
  other.operators.front().percent += 1;
  EXPECT_NE(digest_of_figures(other), digest_of_figures(h)) << "what planners go by is in the digest";
  std::string text = to_json(h);
  text.replace(text.find("convolution_backward_data"), 25, "convolution_backward_dato");
  EXPECT_THROW(machine_from_json(text, "file"), input_error);
}

TEST(EnvironmentJson, OnlyTheAnswerOfAGpuTellsWhatIsFree) {
  gpu_facts gpu;
  gpu.free_bytes = 4096;
  const environment e = collect_environment(gpu);
  EXPECT_EQ(gpu_from_json(to_json(*e.gpu), "answer").free_bytes, 4096U);
  EXPECT_EQ(environment_from_json(to_json(e), "line").gpu->free_bytes, std::nullopt);
}

TEST(RecordJson, WhatIsUnknownIsNull) {
  record r = make_record(sample_cell());
  r.result = outcome::crashed;
  r.reason = "made up";
  const std::string line = to_json(r);
  for (const char* null : {R"("device":null)", R"("counters":null)", R"("digest":null)", R"("terms":null)",
                           R"("timeline":null)", R"("calibrated":null)"}) {
    EXPECT_NE(line.find(null), std::string::npos) << null;
  }
  EXPECT_EQ(to_json(record_from_json(line, "line")), line);
}

TEST(RecordJson, AmplificationFollowsFromTheCountersWhereTheyAreKnown) {
  record r = sample_record();
  EXPECT_NE(to_json(r).find(R"("amplification":null)"), std::string::npos) << "not all observed";
  for (const counter_field& f : counter_fields) r.last.value().*f.member = 100;
  EXPECT_EQ(to_json(r).find(R"("amplification":6.0)"), std::string::npos) << "nobody knows what is touched";
  r.memory.touched = 100;
  const std::string line = to_json(r);
  EXPECT_NE(line.find(R"("amplification":6.0)"), std::string::npos);
  EXPECT_EQ(to_json(record_from_json(line, "line")), line);
  expect_words(refusal<input_error>([&] {
                 record_from_json(replaced(line, R"("amplification":6.0)", R"("amplification":-1)"), "l");
               }),
               {"counters.last.amplification"});
}

TEST(RecordJson, ASimulatedRunWasNotLaunched) {
  const std::string line = to_json(sample_record());
  expect_words(refusal<input_error>([&] {
                 record_from_json(replaced(line, R"("launch":"cuda_graph")", R"("launch":"simulated")"), "l");
               }),
               {"launch", "simulated", "streams"});
}

TEST(RecordJson, BytesThatAreNotUtf8DoNotBreakALine) {
  record r = sample_record();
  r.result = outcome::crashed;
  r.reason = "bad \xff byte";
  EXPECT_NO_THROW(record_from_json(to_json(r), "line"));
}

TEST(EnvironmentJson, ReadsBackEqual) {
  gpu_facts gpu;
  gpu.name = "made up";
  gpu.memory_bytes = 1;
  gpu.facts = {{{"ecc", "yes"}}, {{"mig", "NVML does not tell"}}};
  environment e = collect_environment(gpu);
  e.nvidia_uvm = std::map<std::string, std::string>{{"uvm_perf_prefetch_enable", "1"}};
  const std::string line = to_json(e);
  EXPECT_EQ(to_json(environment_from_json(line, "line")), line);
  EXPECT_EQ(kind_of_line(line, "line"), line_kind::environment);
  EXPECT_EQ(line.rfind(R"({"kind":"environment")", 0), 0U);
}

}  // namespace
}  // namespace um
