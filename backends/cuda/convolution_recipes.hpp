// There are these ways to compute a convolution: cuDNN's engines as they are, with a fused epilogue, or on
// packed operands; Winograd's transforms around products of cuBLASLt; and umbench's own kernels. Each way is
// a recipe: a name, a number of parts, a workspace, and calls. convolution_engines.hpp finds the fastest.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "backends/cuda/convolution_problem.hpp"
#include "backends/cuda/engine.hpp"
#include "backends/cuda/session.hpp"

namespace um {

// How the convolution is reduced to an engine. Records call a method by the text in quotes.
enum class convolution_method : std::uint8_t {
  plain,         // "": cuDNN's engine, then bias and ReLU in place
  fused,         // "fused": with bias and ReLU in the engine
  packed,        // "packed": few channels are packed, or filled up with zeros
  winograd_4x4,  // "winograd4x4": tiles of 4 x 4 results, in fp32
  direct,        // "direct": one of umbench's own kernels
  padded,        // "padded": cuDNN's engine on a copy of x that includes the padding of rows
  adding,        // "adding": cuDNN's engine adds to the result
};
// Reads the method of an engine from its name in records.
convolution_method method_of(const std::string& engine);
// Returns the family of an engine: its name without the variant and the number of parts.
std::string family_of(const std::string& engine);
// Returns the methods that a problem allows. Those that are cheap to try come first.
std::vector<convolution_method> methods_of(const convolution_problem& problem);

// Returns the workspace that a method needs in addition to the engine's, if the batch is computed in `parts`
// parts.
byte_count method_workspace(const convolution_problem& problem, convolution_method method,
                            std::int64_t parts);

// Returns the numbers of equal parts that the batch can be cut into, ascending.
std::vector<std::int64_t> part_counts_of(const convolution_problem& problem);

// Returns whether every part begins at a multiple of 16 bytes, as cuDNN's engines need.
bool parts_are_aligned(const convolution_problem& problem, std::int64_t parts);

// Returns whether to build the recipe of that name. An empty filter selects all.
using recipe_filter = std::function<bool(const std::string& name)>;

// Calls `visit` with all recipes of a method and number of parts, likely ones first, until it returns false:
// some take a second to build. Skips those before `first`, and those of cuDNN that `wants` rejects. `gpu`
// must outlive the recipes.
void visit_recipes(session& gpu, const convolution_problem& problem, convolution_method method,
                   std::int64_t parts, const std::function<bool(const convolution_recipe&)>& visit,
                   std::int64_t first = 0, const recipe_filter& wants = {});

// Returns the recipe of a choice in the engine cache, or nothing if it cannot be built here.
std::optional<convolution_recipe> find_recipe(session& gpu, const convolution_problem& problem,
                                              const engine_choice& choice);

// umbench's own kernels compute some convolutions:
//   tf32 and bf16, nhwc   few input channels
//   tf32, nhwc            filter gradients of many channels
//   fp32, nchw            filter gradients of few input channels
//   any type and order    convolutions in groups
bool direct_applies(const convolution_problem& problem);
// Visits at most one recipe. It computes the batch as one part, since its workspace does not grow with the
// batch.
void visit_direct(session& gpu, const convolution_problem& problem, std::int64_t parts,
                  const std::function<bool(const convolution_recipe&)>& visit);

// 3 x 3 convolutions of stride 1 in fp32 as Winograd tiles: umbench's own transforms around batches of 36
// matrix products. cuDNN's engines of this kind hold the transforms of the whole batch at once; these hold
// those of one part.
bool winograd_applies(const convolution_problem& problem);
void visit_winograd(session& gpu, const convolution_problem& problem, std::int64_t parts,
                    const std::function<bool(const convolution_recipe&)>& visit);

}  // namespace um
