#include <fmt/format.h>

#include <limits>

#include "harness/commands/commands.hpp"
#include "harness/io/files.hpp"
#include "harness/json/torch_step.hpp"

namespace um {

int plan_torch_command(const plan_torch_options& options) {
  const torch_question q = torch_question_from(read_file(options.file), options.file);
  std::vector<torch_fate> fates(q.step.nodes.size());
  for (const torch_id v : q.default_saved) fates[v] = torch_fate::saved;
  torch_step unplanned = q.step;
  unplanned.stores_gradients = false;
  torch_model own(unplanned, std::numeric_limits<std::int64_t>::max());
  own.evaluate(fates);
  fmt::print("{}\n", to_json(own.plan(), plan_torch(q.step, q.budget, q.default_saved, q.work),
                             least_torch_peak(q.step)));
  return 0;
}

}  // namespace um
