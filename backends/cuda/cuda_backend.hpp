// The backend of a real GPU: operators on cuDNN, cuBLASLt and kernels of our own, plans executed
// on three streams. Built with UM_CUDA only; nothing of CUDA shows in this header.
#pragma once

#include <filesystem>
#include <memory>

#include "backends/backend.hpp"

namespace um {

struct cuda_options {
  // Most bytes of workspace that one convolution or matrix product may use. The less, the slower.
  byte_count workspace_cap = standard_workspace_cap;
  // Where the chosen engines are kept, so that every process runs the same ones and results are
  // equal to the bit. Empty: $XDG_CACHE_HOME/umbench/engines.json, or ~/.cache in its place.
  std::filesystem::path engine_cache;
  // Look at few candidates for each operator: engines are there sooner, and may be slower ones. Keep those
  // apart in an engine cache of their own.
  bool brief_search = false;
  // Let managed memory exceed what the budget leaves, with a ballast in the way, so that the
  // driver evicts. Driver defects can hang a GPU there; off unless a user asks for it by name.
  bool allow_native_oversubscription = false;
};

// Throws unsupported if there is no such device or no driver for it, cuda_error if it fails.
std::unique_ptr<backend> open_cuda(int device, const cuda_options& options = {});

}  // namespace um
