// The question that umbench.torch.fit asks, and its answer (planners/torch_target.hpp).
#pragma once

#include <string>
#include <vector>

#include "planners/torch_target.hpp"

namespace um {

struct torch_question {
  torch_step step;
  std::int64_t budget = 0;
  std::vector<torch_id> default_saved;  // PyTorch's own choice of saved tensors
  std::int64_t work = 0;
};

torch_question torch_question_from(const std::string& text, const std::string& source);
// On one line: the estimates of both choices, the saved and the recomputed nodes, and the least peak of any
// plan.
std::string to_json(const torch_plan& own, const torch_plan& made, std::int64_t least_peak);

}  // namespace um
