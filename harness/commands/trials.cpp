#include "harness/commands/trials.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <thread>

#include "harness/commands/cells.hpp"
#include "harness/process/sweep_runner.hpp"
#include "harness/records/numbers.hpp"

namespace um {
namespace {

constexpr std::int64_t most_jobs = 1024;

bool is_simulated(const experiment& e) {
  return parse_backend(e.backend).simulated;
}

}  // namespace

experiment with_strategy(experiment setting, const std::string& name) {
  setting.strategy = name;
  setting.rules.reset();
  setting.strategy_knobs.clear();
  return completed_on_known_network(std::move(setting));
}

experiment with_strategy(experiment setting, hint_strategy rules) {
  setting.strategy = rules.name;
  setting.rules = std::move(rules);
  setting.strategy_knobs.clear();
  return completed_on_known_network(std::move(setting));
}

std::string setting_text(const experiment& setting) {
  const std::string name = "device/";
  std::string key = key_of(with_strategy(setting, "device"));
  return key.erase(key.rfind(name), name.size());
}

trials::trials(const std::vector<machine>& machines, record_file& file, environment here,
               signal_watch& signals, std::size_t jobs)
    : machines_(machines), file_(file), here_(std::move(here)), signals_(signals), jobs_(jobs) {}

std::optional<std::vector<record>> trials::run(const std::vector<experiment>& what, const std::string& why) {
  std::vector<cell> cells;
  std::set<std::string> asked;
  for (const experiment& e : what) {
    const std::string key = key_of(e);
    if (!known_.contains(key) && asked.insert(key).second) cells.push_back(cell_of(e, machines_));
  }
  if (!cells.empty()) {
    fmt::print(stderr, "{}\n", why);
    const bool simulated = std::ranges::all_of(cells, [](const cell& c) { return is_simulated(c.what); });
    sweep_result done = run_sweep(cells, {simulated ? jobs_ : 1, true}, file_, here_, signals_, stderr);
    if (done.stopped_by) return std::nullopt;
    if (done.hung) throw append_error(fmt::format("{} hangs in the kernel; reboot the machine", *done.hung));
    for (record& r : done.records) known_.insert_or_assign(r.key, std::move(r));
  }
  std::vector<record> all;
  for (const experiment& e : what) all.push_back(known_.at(key_of(e)));
  return all;
}

std::size_t jobs_of(const std::string& option) {
  if (option.empty()) return std::max(1U, std::thread::hardware_concurrency());
  return static_cast<std::size_t>(whole_number("--jobs", option, 1, most_jobs));
}

}  // namespace um
