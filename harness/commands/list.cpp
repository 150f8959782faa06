#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/figures.hpp"
#include "harness/commands/cells.hpp"
#include "harness/json/json.hpp"
#include "harness/records/strategies.hpp"
#include "harness/records/suggest.hpp"
#include "harness/records/summary.hpp"
#include "networks/catalogue.hpp"

namespace um {
namespace {

template <class Knob>
void print_knobs(const std::vector<Knob>& knobs, const char* option) {
  for (const Knob& k : knobs) {
    fmt::print("      {} {}={}  {} ({} to {})\n", option, k.name, k.standard, k.summary, k.least, k.most);
  }
}

struct level {
  std::string_view option, value, meaning;
};

// What every network can be built with; the first value of an option is its default.
void list_levels() {
  const std::array<level, 9> levels{{
      {"--fusion", to_text(fusion::fused),
       "operators joined wherever one pass over the data does for several"},
      {"", to_text(fusion::none),
       "convolution, bias, ReLU, normalisation and pool apart, as in the papers' frameworks"},
      {"", to_text(fusion::lean),
       "as fused, and cheap tensors are computed again where that lowers the peak"},
      {"", to_text(fusion::framework),
       "as none, and nothing shares memory: data and gradient of every layer, as in Caffe"},
      {"--precision", to_text(precision::fp32), "no TF32"},
      {"", to_text(precision::tf32), "operands of products rounded to TF32"},
      {"", to_text(precision::bf16),
       "inputs, activations and their gradients are bfloat16; weights, their gradients and sums fp32"},
      {"--memory-order", to_text(memory_order::nchw), "the default for fp32"},
      {"", to_text(memory_order::nhwc), "the default for tf32 and bf16"},
  }};
  fmt::print("each of them with\n");
  for (const level& l : levels) fmt::print("  {:<17} {:<9} {}\n", l.option, l.value, l.meaning);
}

void list_networks() {
  fmt::print("networks (--network)\n");
  for (const network_family& f : networks()) {
    fmt::print("  {:<17} {}\n", f.name, f.summary);
    print_knobs(f.knobs, "--set");
  }
  list_levels();
}

void list_strategies() {
  fmt::print("strategies (--strategy)\n");
  for (const strategy& s : strategies()) {
    fmt::print("  {:<17} {}\n", s.name, s.summary);
    print_knobs(s.knobs, "--knob");
  }
}

void list_machines(const std::vector<machine>& machines) {
  fmt::print("machines (--backend sim:NAME)\n");
  for (const machine& m : machines) {
    fmt::print("  {:<17} {} device, {} host; {}\n      {}\n", m.name, to_text(m.device_bytes),
               to_text(m.host_bytes), provenance(m), m.source);
  }
}

// What a machine file says, and where it comes from.
void list_figures() {
  fmt::print("figures of a machine (core/machine.hpp)\n");
  for (const figure& f : figures()) {
    fmt::print("  {:<42} {:<12} {}\n", f.name, f.unit, to_text(f.from));
  }
}

}  // namespace

int list_command(const list_options& options) {
  const std::string& what = options.what;
  const std::vector<std::string> known{"networks", "strategies", "machines", "figures"};
  if (!what.empty() && std::find(known.begin(), known.end(), what) == known.end()) {
    throw input_error(unknown_name("list", what, known));
  }
  if (options.json) {
    if (what != "strategies") throw input_error("--json is for `umbench list strategies`");
    fmt::print("{}\n", to_json(strategies()));
    return 0;
  }
  const auto machines = machines_in(options.machines);
  if (what.empty() || what == "networks") list_networks();
  if (what.empty() || what == "strategies") list_strategies();
  if (what.empty() || what == "machines") list_machines(machines);
  if (what == "figures") list_figures();
  return 0;
}

}  // namespace um
