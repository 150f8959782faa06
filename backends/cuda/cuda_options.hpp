#pragma once

#include <filesystem>

#include "backends/backend.hpp"

namespace um {

struct cuda_options {
  // A convolution or matrix product may use this much workspace. Less makes it slower.
  byte_count workspace_cap = standard_workspace_cap;
  // The chosen engines are kept here, so that every process runs the same ones and results are equal to the
  // bit. If empty: $XDG_CACHE_HOME/umbench/engines.jsonl, or ~/.cache in its place.
  std::filesystem::path engine_cache;
  // For tests: takes the first engine of each operator that runs and is accurate, without timing, and
  // preferably one that needs no compilation. Use another engine cache for them.
  bool brief_search = false;
  // Lets managed memory exceed the part of the budget that is left for it, with a ballast, so that the driver
  // evicts. Driver defects can hang a GPU then, so a user must ask for it.
  bool allow_native_oversubscription = false;
};

}  // namespace um
