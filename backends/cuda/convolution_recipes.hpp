// The ways to compute a convolution: cuDNN's engines as they are, with the epilogue in the same
// kernel, or on packed operands; Winograd's transforms around products of cuBLASLt; and kernels of our
// own. Each is a
// recipe: a name, a number of parts, a workspace, and calls. Which one is fastest is not known here.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "backends/cuda/convolution_recipe.hpp"
#include "backends/cuda/session.hpp"

namespace um {

// What is done around the product. By name as in records.
enum class convolution_method : std::uint8_t {
  plain,         // "": cuDNN's engine, then bias and ReLU in place
  fused,         // "fused": with bias and ReLU in the engine
  packed,        // "packed": few channels packed by blocks of the stride, or filled up
  packed_fused,  // "packed fused": both
  winograd_4x4,  // "winograd4x4": tiles of 4 x 4 results, in fp32
  direct,        // "direct": a kernel of ours
  padded,        // "padded": cuDNN's engine without padding of rows, which x has in a copy of it
  adding,        // "adding": cuDNN's engine, which adds to what the result holds
};
// Of an engine's name in records.
convolution_method method_of(const std::string& engine);
// What variants of that engine have in common, the number of parts left out.
std::string family_of(const std::string& engine);
// Those that can be tried on a problem, in the order of their cost to try.
std::vector<convolution_method> methods_of(const convolution_problem& problem);

// Workspace that a method takes in so many parts whichever the engine.
byte_count scratch_of(const convolution_problem& problem, convolution_method method, std::int64_t parts);

// Numbers of equal parts that the batch can be cut into, ascending.
std::vector<std::int64_t> parts_of(const convolution_problem& problem);

// Does every part begin at a multiple of 16 bytes, as cuDNN's engines want it? Others are not tried.
bool parts_are_aligned(const convolution_problem& problem, std::int64_t parts);

// All recipes of a method with a number of parts, likely ones first. `on` must outlive them.
// `visit` returns false to end: some take a second to make. Those before `first` are left out.
void visit_recipes(session& on, const convolution_problem& problem, convolution_method method,
                   std::int64_t parts, const std::function<bool(const convolution_recipe&)>& visit,
                   std::int64_t first = 0);

// The recipe that was chosen, by whichever process; nothing if it is not to be had.
std::optional<convolution_recipe> find_recipe(session& on, const convolution_problem& problem,
                                              const engine_choice& choice);

}  // namespace um
