#include <fmt/format.h>

#include <limits>

#include "core/errors.hpp"
#include "harness/commands/cells.hpp"
#include "harness/commands/commands.hpp"
#include "harness/commands/limits.hpp"
#include "harness/io/errors.hpp"
#include "harness/io/files.hpp"
#include "harness/io/progress.hpp"
#include "harness/io/say.hpp"
#include "harness/json/json.hpp"
#include "harness/json/torch_step.hpp"
#include "harness/process/flow.hpp"
#include "harness/study/modules.hpp"
#include "harness/study/summary.hpp"
#include "schedule/notes.hpp"

namespace um {
namespace {

std::string plan_table(const planned_cell& made, bool wanted) {
  if (!wanted) return "";
  const auto rows = modules_of(*made.file.network.network, made.file.plan);
  if (rows.empty()) {
    throw input_error(fmt::format("--table: {} names no modules; umbench export writes a graph that does",
                                  made.file.network.spec.name));
  }
  return module_table(rows);
}

}  // namespace

int plan_command(const plan_options& options) {
  std::vector<std::string> taken = input_files_of(options.experiment);
  check_output_file("--out", options.out, taken);
  taken.push_back(options.out);
  check_output_file("--graph", options.graph_out, taken);
  const auto machines = load_machines_from(options.experiment.machines);
  cell work = with_machine(requested_cell(options.experiment), machines);
  if (!work.backend.is_simulated) {
    // A child process looks for the GPU first, so that this process opens it only if it exists.
    signal_watch signals;
    environment_for(std::span(&work, 1), machines, options.experiment.machine_like, signals);
  }
  progress_thread progress("planning");
  const process_limits within("planning", std::chrono::seconds{work.settings.deadline_s},
                              work.backend.is_simulated);
  try {
    const best_time_listener listener([&](nanoseconds time) {
      progress.note(fmt::format("the best so far takes {}", time_text(static_cast<double>(time))));
    });
    const planned_cell made = plan_cell(work);
    const std::string table = plan_table(made, options.table);
    if (!options.graph_out.empty()) write_file(options.graph_out, to_json(*made.file.network.network));
    if (!options.out.empty()) write_file(options.out, to_json(made.file));
    if (options.out != "-" && options.graph_out != "-") {
      fmt::print("{}  {:<11}{}\n{}{}", summary(made), "machine", provenance(*work.planner_machine),
                 precision_row(work), table);
    }
    return 0;
  } catch (const infeasible& error) {
    print_text("umbench: no plan: infeasible: {}\n", error.what());
  } catch (const unsupported& error) {
    print_text("umbench: no plan: unsupported: {}\n", error.what());
  } catch (const out_of_memory& error) {
    print_text("umbench: no plan: out of memory: {}\n", error.what());
  }
  return 1;
}

int plan_torch_command(const plan_torch_options& options) {
  const torch_question q = torch_question_from(read_file(options.file), options.file);
  std::vector<torch_fate> fates(q.step.nodes.size());
  for (const torch_id v : q.default_saved) fates[v] = torch_fate::saved;
  torch_step unplanned = q.step;
  unplanned.stores_gradients = false;
  torch_model own(unplanned, std::numeric_limits<std::int64_t>::max());
  own.evaluate(fates);
  fmt::print("{}\n", to_json(own.plan(), plan_torch(q.step, q.budget, q.default_saved, q.work),
                             torch_peak_lower_bound(q.step)));
  return 0;
}

}  // namespace um
