// What a user may choose of the CUDA backend.
#pragma once

#include <filesystem>

#include "backends/backend.hpp"

namespace um {

struct cuda_options {
  // Most bytes of workspace that one convolution or matrix product may use. The less, the slower.
  byte_count workspace_cap = standard_workspace_cap;
  // Where the chosen engines are kept, so that every process runs the same ones and results are
  // equal to the bit. Empty: $XDG_CACHE_HOME/umbench/engines.json, or ~/.cache in its place.
  std::filesystem::path engine_cache;
  // Take the first engine of each operator that runs and is accurate, untimed, and such as need not be
  // compiled first if there are any: for tests. Keep those apart in an engine cache of their own.
  bool brief_search = false;
  // Let managed memory exceed what the budget leaves, with a ballast in the way, so that the
  // driver evicts. Driver defects can hang a GPU there; off unless a user asks for it by name.
  bool allow_native_oversubscription = false;
};

}  // namespace um
