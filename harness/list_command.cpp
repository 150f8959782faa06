#include <fmt/format.h>

#include <algorithm>

#include "harness/cells.hpp"
#include "harness/strategies.hpp"
#include "harness/suggest.hpp"
#include "networks/catalogue.hpp"

namespace um {
namespace {

template <class Knob>
void print_knobs(const std::vector<Knob>& knobs, const char* option) {
  for (const Knob& k : knobs) {
    fmt::print("      {} {}={}  {} ({} to {})\n", option, k.name, k.standard, k.summary, k.least, k.most);
  }
}

void list_networks() {
  fmt::print("networks (--network)\n");
  for (const network_family& f : networks()) {
    fmt::print("  {:<17} {}\n", f.name, f.summary);
    print_knobs(f.knobs, "--set");
  }
}

void list_strategies() {
  fmt::print("strategies (--strategy)\n");
  for (const strategy& s : strategies()) {
    fmt::print("  {:<17} {}\n", s.name, s.summary);
    print_knobs(s.knobs, "--knob");
  }
}

void list_machines(const std::vector<machine_file>& machines) {
  fmt::print("machines (--backend sim:NAME)\n");
  for (const machine_file& m : machines) {
    fmt::print("  {:<17} {} device, {} host; {}; {} of its figures estimated\n      {}\n", m.what.name,
               to_text(m.what.device_bytes), to_text(m.what.host_bytes),
               m.what.calibrated ? "calibrated" : "not calibrated",
               m.estimated.empty() ? std::string("none") : std::to_string(m.estimated.size()), m.what.source);
  }
}

}  // namespace

int list_command(const std::string& what, const std::string& machines_folder) {
  const std::vector<std::string> known{"networks", "strategies", "machines"};
  if (!what.empty() && std::find(known.begin(), known.end(), what) == known.end()) {
    throw input_error(unknown_name("list", what, known));
  }
  const auto machines = machines_in(machines_folder);
  if (what.empty() || what == "networks") list_networks();
  if (what.empty() || what == "strategies") list_strategies();
  if (what.empty() || what == "machines") list_machines(machines);
  return 0;
}

}  // namespace um
