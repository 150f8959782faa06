#include "harness/commands/trials.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "harness/io/say.hpp"
#include "harness/process/sweep_runner.hpp"
#include "harness/study/summary.hpp"

namespace um {

std::string setting_text(const cell& setting) {
  const std::string name = std::string(baseline_strategy) + "/";
  std::string key = with_strategy(setting, strategy_named(baseline_strategy)).key;
  return key.erase(key.rfind(name), name.size());
}

trials::trials(record_file& file, environment here, signal_watch& signals, std::size_t jobs)
    : file_(file), here_(std::move(here)), signals_(signals), jobs_(jobs) {}

std::optional<std::vector<record>> trials::run(const std::vector<cell>& requested, const std::string& why) {
  std::vector<cell> cells;
  std::set<std::string> asked;
  for (const cell& c : requested) {
    if (!earlier_records_.contains(c.key) && asked.insert(c.key).second) cells.push_back(c);
  }
  if (!cells.empty()) {
    print_text("{}\n", why);
    const bool simulated = std::ranges::all_of(cells, [](const cell& c) { return c.backend.is_simulated; });
    sweep_result done = run_sweep(cells, {simulated ? jobs_ : 1, true}, file_, here_, signals_, stderr);
    if (done.stop_signal) return std::nullopt;
    if (done.hung_cell)
      throw append_error(fmt::format("{} hangs in the kernel; reboot the machine", *done.hung_cell));
    for (record& r : done.records) earlier_records_.insert_or_assign(r.key, std::move(r));
  }
  std::vector<record> all;
  for (const cell& c : requested) all.push_back(earlier_records_.at(c.key));
  return all;
}

int trials::exit_code() const {
  // Contradictory rules give a faulty plan, which never ran: not a failed trial.
  const auto failed = [](const auto& r) {
    const bool never_ran = r.second.result == outcome::wrong_result && r.second.samples.empty();
    return !is_result(r.second.result) && r.second.result != outcome::unsupported && !never_ran;
  };
  const auto all = std::ranges::count_if(earlier_records_, failed);
  if (all == 0) return 0;
  const auto& first = *std::ranges::find_if(earlier_records_, failed);
  print_text("umbench: {} of {} trials failed, such as {}: {}; their records in {} say why\n", all,
             earlier_records_.size(), first.first, outcome_text(first.second), file_.path().string());
  return 1;
}

}  // namespace um
