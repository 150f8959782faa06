// The request of umbench.torch.fit and the plan that answers it (planners/torch_target.hpp), as JSON.
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
// One line: the estimates for PyTorch's choice and for the plan, the saved and the recomputed nodes, and the
// lowest peak of any plan.
std::string to_json(const torch_plan& own, const torch_plan& made, std::int64_t min_peak);

}  // namespace um
