// Options of the CUDA backend.
#pragma once

#include <filesystem>

#include "backends/backend.hpp"

namespace um {

struct cuda_options {
  // Most bytes of workspace that one convolution or matrix product may use. Less makes it slower.
  byte_count workspace_cap = standard_workspace_cap;
  // Where the chosen engines are kept, so that every process runs the same ones and results are
  // equal to the bit. Empty: $XDG_CACHE_HOME/umbench/engines.json, or ~/.cache in its place.
  std::filesystem::path engine_cache;
  // For tests: take the first engine of each operator that runs and is accurate, without timing, and
  // preferably one that needs no compilation. Use another engine cache for them.
  bool brief_search = false;
  // Let managed memory exceed the part of the budget that is left for it, with a ballast, so that the
  // driver evicts. Driver defects can hang a GPU there, so a user must ask for it by name.
  bool allow_native_oversubscription = false;
};

}  // namespace um
