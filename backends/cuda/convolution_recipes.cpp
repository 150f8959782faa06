#include "backends/cuda/convolution_recipes.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "backends/cuda/convolution_kernels.hpp"
#include "backends/cuda/cudnn_plans.hpp"
#include "backends/cuda/kernels/pitched_copy.hpp"
#include "backends/cuda/session.hpp"
#include "core/lifetimes.hpp"

namespace um {
namespace {

constexpr std::array<const char*, 7> method_names{"",        "fused ",  "packed ", "winograd4x4 ",
                                                  "direct ", "padded ", "adding "};

std::string recipe_name(convolution_method method, std::int64_t parts, const std::string& engine) {
  return method_names.at(static_cast<std::size_t>(method)) + engine +
         (parts > 1 ? " x" + std::to_string(parts) : "");
}

bool is_filter_gradient(const convolution_problem& p) {
  return p.kind == convolution_kind::backward_filter;
}
bool has_epilogue(const convolution_problem& p) {
  return p.has_bias || p.attributes.relu;
}
// Whether the engine adds to the result. A filter gradient is added by the kernel that converts it.
bool engine_accumulates(const convolution_problem& p) {
  return p.accumulates && !is_filter_gradient(p);
}

std::int64_t rows_of_padding_below(const convolution_problem& p) {
  return padding_after(p.x.h, p.attributes.pad_h, p.w.h, p.attributes.stride_h, p.y.h);
}
// Whether libraries support the padding without a copy of x.
bool libraries_support_padding(const convolution_problem& p) {
  return p.attributes.pad_h >= 0 && rows_of_padding_below(p) > -p.attributes.stride_h;
}
bool padding_is_symmetric(const convolution_problem& p) {
  return is_even({p.attributes.pad_h, rows_of_padding_below(p)}, p.attributes.stride_h);
}

dims part_of(dims shape, std::int64_t parts) {
  shape.n /= parts;
  return shape;
}
byte_count bytes_of(const dims& shape, dtype type) {
  return static_cast<byte_count>(element_count(shape)) * element_bytes(type);
}

// x and w are packed so that whole blocks of the stride become channels. Without a stride, and for the rest,
// zeros fill up channels to 16 bytes.
struct packed_operands {
  kernels::packing x, w;
  convolution attributes;
};

packed_operands packing_of(const convolution_problem& p, std::int64_t parts) {
  const std::int64_t block = p.attributes.stride_h;
  const dtype type = operand_type(p.arithmetic);
  const std::int64_t multiple = 16 / static_cast<std::int64_t>(element_bytes(type));
  const std::int64_t channels = (p.w.c * block * block + multiple - 1) / multiple * multiple;
  dims w{p.w.n, channels, (p.w.h + block - 1) / block, (p.w.w + block - 1) / block};
  dims x = part_of(p.x, parts);
  x.c = channels;
  convolution attributes = p.attributes;
  attributes.relu = false;
  std::int64_t pad_h = 0, pad_w = 0;
  if (block > 1) {
    x.h = p.y.h + w.h - 1;
    x.w = p.y.w + w.w - 1;
    pad_h = attributes.pad_h;
    pad_w = attributes.pad_w;
    attributes = {};
  }
  return {{part_of(p.x, parts), x, block, pad_h, pad_w, type, p.order},
          {p.w, w, block, 0, 0, type, p.order},
          attributes};
}

bool packing_applies(const convolution_problem& p) {
  constexpr std::int64_t few = 8;
  const bool strided = p.attributes.stride_h > 1 && p.attributes.stride_h == p.attributes.stride_w &&
                       p.w.h >= p.attributes.stride_h;
  const bool filled =
      p.attributes.stride_h == 1 && p.attributes.stride_w == 1 && p.order == memory_order::nhwc;
  return p.kind != convolution_kind::backward_data && p.attributes.groups == 1 && p.w.c < few &&
         (strided || filled) && element_count(packing_of(p, 1).x.packed_shape) < std::int64_t{1} << 31;
}

// Whether every part of y begins at a multiple of 16 bytes. A padded copy of x always does.
bool y_parts_are_aligned(const convolution_problem& p, std::int64_t parts) {
  return bytes_of(part_of(p.y, parts), operand_type(p.arithmetic)) % 16 == 0;
}

// What a method computes for one part, and where. The workspace holds, in order: packed or padded x; packed
// w, or a filter gradient that is not written to dw directly; the engine's workspace.
struct scratch_layout {
  cudnn_convolution product;
  bool packs = false, pads = false;
  packed_operands packing;
  // After each part a kernel converts or unpacks the filter gradient from the workspace into dw.
  bool adds_from_workspace = false;
  byte_count packed_x = 0, packed_w = 0;
};

scratch_layout scratch_layout_of(const convolution_problem& p, convolution_method method,
                                 std::int64_t parts) {
  scratch_layout s;
  s.product = {p.kind, part_of(p.x, parts), p.w, part_of(p.y, parts), p.attributes};
  s.product.attributes.relu = p.attributes.relu && method == convolution_method::fused;
  s.product.has_bias = p.has_bias && method == convolution_method::fused;
  s.product.accumulates = method == convolution_method::adding;
  s.product.operands = s.product.result = operand_type(p.arithmetic);
  s.product.order = p.order;
  s.product.allows_tensor_cores = p.arithmetic != precision::fp32;
  s.packs = method == convolution_method::packed;
  // cuDNN writes bf16 gradients much faster than f32 ones from bf16 operands, and its fast engines do
  // not add.
  s.adds_from_workspace = is_filter_gradient(p) && (s.packs || operand_type(p.arithmetic) == dtype::bf16 ||
                                                    p.accumulates || parts > 1);
  s.packing = packing_of(p, parts);
  if (s.packs) {
    s.product.x = s.packing.x.packed_shape;
    s.product.w = s.packing.w.packed_shape;
    s.product.attributes = s.packing.attributes;
  } else {
    if (method == convolution_method::padded) {  // adds rows of padding, and drops rows that no window reads
      s.pads = true;
      s.product.x.h = (p.y.h - 1) * p.attributes.stride_h + p.w.h;
      s.product.attributes.pad_h = 0;
    }
    s.packing.w.packed_shape = p.w;
    s.packing.w.block = 1;
  }
  if (s.packs || s.pads)
    s.packed_x = round_up(bytes_of(s.product.x, operand_type(p.arithmetic)), arena_alignment);
  if (s.packs || s.adds_from_workspace)
    s.packed_w = round_up(bytes_of(s.product.w, operand_type(p.arithmetic)), arena_alignment);
  return s;
}

// Binds the kernel that follows the product of one part: it adds, unpacks, or applies bias and ReLU.
kernel_call bind_postprocessing(session& gpu, const convolution_problem& p, convolution_method method,
                                const scratch_layout& s, std::byte* y, std::byte* b, std::byte* apart,
                                std::byte* dw, bool add) {
  if (s.adds_from_workspace && add && !s.packs && operand_type(p.arithmetic) == dtype::f32) {
    return [where = gpu.compute(), apart, dw, count = element_count(p.w)] {
      kernels::add(where, dw, apart, dw, count, dtype::f32);
    };
  }
  if (s.adds_from_workspace) {
    return [where = gpu.compute(), apart, dw = reinterpret_cast<float*>(dw), form = s.packing.w, add] {
      kernels::unpack_filter_gradient(where, apart, dw, form, add);
    };
  }
  if (!has_epilogue(p) || method == convolution_method::fused) return {};
  return [where = gpu.compute(), y, b = reinterpret_cast<const float*>(b), relu = p.attributes.relu,
          of = kernels::tensor_form{s.product.y, operand_type(p.arithmetic), p.order}] {
    kernels::bias_relu(where, y, b, relu, of);
  };
}

// Binds the kernel that packs the filters before the first part.
kernel_call bind_preprocessing(session& gpu, const convolution_problem& p, const scratch_layout& s,
                               std::byte* w, std::byte* packed_w) {
  if (!s.packs || is_filter_gradient(p)) return {};
  return [where = gpu.compute(), w, packed_w, form = s.packing.w] {
    kernels::pack_channels(where, w, packed_w, form);
  };
}

// The convolution inside a recipe, without the work around it: an engine of cuDNN or one of umbench's
// kernels.
struct inner_engine {
  std::string name, family;
  byte_count workspace_bytes = 0;
  std::function<kernel_call(const bound_operands&)> bind;
};

inner_engine inner_engine_of(session& gpu, const cudnn_plan& plan) {
  return {plan.name(), family_of(plan.name()), plan.workspace_bytes(),
          [&gpu, plan](const bound_operands& operands) { return plan.bind(gpu, operands); }};
}

// Copies the rows that a part of x and its padded copy share, in either direction.
kernels::byte_box copy_of_shared_rows(const convolution_problem& p, const dims& x, const dims& padded,
                                      bool back, byte_count& at_x, byte_count& at_padded) {
  const std::int64_t before = p.attributes.pad_h, first = std::max<std::int64_t>(-before, 0);
  const std::int64_t rows = std::max<std::int64_t>(std::min(x.h, padded.h - before) - first, 0);
  const bool planes = p.order == memory_order::nchw;
  const byte_count row = bytes_of({1, planes ? 1 : x.c, 1, x.w}, operand_type(p.arithmetic));
  const auto size = [](std::int64_t value) { return static_cast<byte_count>(value); };
  at_x = size(first) * row;
  at_padded = size(first + before) * row;
  const byte_count of_x = size(x.h) * row, of_padded = size(padded.h) * row;
  kernels::byte_box box{size(rows) * row, size(planes ? x.n * x.c : x.n)};
  box.from_pitch = back ? of_padded : of_x;
  box.to_pitch = back ? of_x : of_padded;
  return box;
}

// Copies between a part of x and its padded copy: into the copy before the product, or, for a gradient,
// back after it.
kernel_call bind_padding_copy(session& gpu, const convolution_problem& p, const dims& part,
                              const dims& copied, std::byte* x, std::byte* padded) {
  const bool back = p.kind == convolution_kind::backward_data;
  byte_count at_x = 0, at_padded = 0;
  const kernels::byte_box box = copy_of_shared_rows(p, part, copied, back, at_x, at_padded);
  const bool fills = !back || box.width < box.to_pitch;
  const byte_count filled = bytes_of(back ? part : copied, operand_type(p.arithmetic));
  return [stream = gpu.compute().stream, x, padded, box, back, fills, filled, at_x, at_padded] {
    if (fills) check(cudaMemsetAsync(back ? x : padded, 0, filled, stream));
    kernels::copy_box(stream, back ? x + at_x : padded + at_padded, back ? padded + at_padded : x + at_x,
                      box);
  };
}

kernel_call bind_recipe(session& gpu, const convolution_problem& p, convolution_method method,
                        std::int64_t parts, const inner_engine& engine, const bound_operands& operands) {
  const scratch_layout s = scratch_layout_of(p, method, parts);
  const byte_count x_step = bytes_of(part_of(p.x, parts), operand_type(p.arithmetic));
  const byte_count y_step = bytes_of(part_of(p.y, parts), operand_type(p.arithmetic));
  std::byte *const packed_x = operands.workspace, *const packed_w = packed_x + s.packed_x;
  std::byte* const w = operands.data.at(1);
  std::byte* const b = p.has_bias ? operands.data.at(3) : nullptr;
  std::vector<kernel_call> calls;
  const auto append = [&](kernel_call call) {
    if (call) calls.push_back(std::move(call));
  };
  append(bind_preprocessing(gpu, p, s, w, packed_w));
  for (std::int64_t i = 0; i < parts; ++i) {
    std::byte *const x = operands.data.at(0) + static_cast<byte_count>(i) * x_step,
                     *const y = operands.data.at(2) + static_cast<byte_count>(i) * y_step;
    if (s.packs) {
      append([where = gpu.compute(), x, packed_x, form = s.packing.x] {
        kernels::pack_channels(where, x, packed_x, form);
      });
    }
    const auto pad = [&] {
      append(bind_padding_copy(gpu, p, part_of(p.x, parts), s.product.x, x, packed_x));
    };
    const bool is_result = p.kind == convolution_kind::backward_data;
    if (s.pads && !is_result) pad();
    append(engine.bind(
        {{s.packed_x > 0 ? packed_x : x, s.packed_w > 0 ? packed_w : w, y, b}, packed_w + s.packed_w}));
    if (s.pads && is_result) pad();
    append(bind_postprocessing(gpu, p, method, s, y, b, packed_w, w, p.accumulates || i > 0));
  }
  return [calls = std::move(calls)] {
    for (const kernel_call& call : calls) call();
  };
}

convolution_recipe make_recipe(session& gpu, const convolution_problem& p, convolution_method method,
                               std::int64_t parts, const inner_engine& engine, std::size_t position) {
  const scratch_layout s = scratch_layout_of(p, method, parts);
  return {engine.name,
          engine.family,
          static_cast<std::int64_t>(position),
          parts,
          s.packed_x + s.packed_w + engine.workspace_bytes,
          [&gpu, p, method, parts, engine](const bound_operands& operands) {
            return bind_recipe(gpu, p, method, parts, engine, operands);
          }};
}

// Visits umbench's own kernels on packed operands. On operands that are not packed they are the method
// `direct`.
bool visit_packed_own_kernels(session& gpu, const convolution_problem& p, convolution_method method,
                              std::int64_t parts,
                              const std::function<bool(const convolution_recipe&)>& visit) {
  const scratch_layout s = scratch_layout_of(p, method, parts);
  convolution_problem product = p;
  product.x = s.product.x;
  product.w = s.product.w;
  product.y = s.product.y;
  product.attributes = s.product.attributes;
  product.accumulates = false;
  if (method != convolution_method::packed || !is_filter_gradient(p) || !direct_applies(product)) return true;
  bool more = true;
  visit_direct(gpu, product, 1, [&](const convolution_recipe& kernel) {
    more = visit(make_recipe(gpu, p, method, parts,
                             {kernel.name, kernel.engine_family, kernel.workspace_bytes, kernel.bind}, 0));
    return more;
  });
  return more;
}

// Visits the recipes of a method that surrounds an engine of cuDNN.
void visit_engine_recipes(session& gpu, const convolution_problem& p, convolution_method method,
                          std::int64_t parts, const std::function<bool(const convolution_recipe&)>& visit,
                          std::int64_t first, const recipe_filter& wants) {
  const bool aligned =
      parts_are_aligned(p, parts) || (method == convolution_method::padded && y_parts_are_aligned(p, parts));
  if (!aligned || !visit_packed_own_kernels(gpu, p, method, parts, visit)) return;
  const cudnn_candidates candidates(gpu, scratch_layout_of(p, method, parts).product);
  std::set<std::string> seen;  // the heuristics name many engines several times
  for (auto i = static_cast<std::size_t>(first); i < candidates.size(); ++i) {
    const std::string name = candidates.name_of(i);
    if (!name.empty() && (!seen.insert(name).second || (wants && !wants(recipe_name(method, parts, name)))))
      continue;
    const auto plan = candidates.build(i);
    if (!plan || (name.empty() && !seen.insert(plan->name()).second)) continue;
    if (!visit(make_recipe(gpu, p, method, parts, inner_engine_of(gpu, *plan), i))) return;
  }
}

dims result_shape(const convolution_problem& p) {
  return p.kind == convolution_kind::forward ? p.y : p.kind == convolution_kind::backward_data ? p.x : p.w;
}

// The recipe writes to the front of the workspace, then a kernel adds that to the result.
kernel_call bind_and_accumulate(session& gpu, const convolution_problem& p, const convolution_recipe& inner,
                                const bound_operands& operands) {
  const std::size_t which = p.kind == convolution_kind::forward ? 2 : 0;
  const dims shape = result_shape(p);
  const dtype type = operand_type(p.arithmetic);
  std::byte *const result = operands.data.at(which), *const partial = operands.workspace;
  bound_operands given = operands;
  given.data[which] = partial;
  given.workspace += round_up(bytes_of(shape, type), arena_alignment);
  return
      [where = gpu.compute(), call = inner.bind(given), result, partial, count = element_count(shape), type] {
        call();
        kernels::add(where, result, partial, result, count, type);
      };
}

void visit_accumulating_recipes(session& gpu, const convolution_problem& p, convolution_method method,
                                std::int64_t parts,
                                const std::function<bool(const convolution_recipe&)>& visit,
                                std::int64_t first, const recipe_filter& wants) {
  convolution_problem alone = p;
  alone.accumulates = false;
  const byte_count partial_bytes =
      round_up(bytes_of(result_shape(p), operand_type(p.arithmetic)), arena_alignment);
  visit_recipes(
      gpu, alone, method, parts,
      [&](convolution_recipe recipe) {
        recipe.workspace_bytes += partial_bytes;
        recipe.bind = [&gpu, p, inner = recipe](const bound_operands& operands) {
          return bind_and_accumulate(gpu, p, inner, operands);
        };
        return visit(recipe);
      },
      first, wants);
}

}  // namespace

// Returns the method with the longest name that the text begins with.
convolution_method method_of(const std::string& engine) {
  std::size_t best = 0;
  for (std::size_t m = 0; m < method_names.size(); ++m) {
    const std::string name = method_names.at(m);
    if (engine.rfind(name, 0) == 0 && name.size() > std::string(method_names.at(best)).size()) best = m;
  }
  return static_cast<convolution_method>(best);
}

std::string family_of(const std::string& engine) {
  const std::string whole = engine.substr(0, engine.rfind(" x"));
  return whole.substr(0, whole.find("_k"));
}

bool parts_are_aligned(const convolution_problem& p, std::int64_t parts) {
  constexpr byte_count multiple = 16;
  const byte_count x = bytes_of(part_of(p.x, parts), operand_type(p.arithmetic));
  const byte_count y = bytes_of(part_of(p.y, parts), operand_type(p.arithmetic));
  return parts == 1 || (x | y) % multiple == 0;
}

// The heuristics of cuDNN 9.19 crash for unequal padding.
std::vector<convolution_method> methods_of(const convolution_problem& p) {
  if (!libraries_support_padding(p)) {
    std::vector<convolution_method> few{convolution_method::padded};
    if (p.attributes.groups > 1 && direct_applies(p)) few.push_back(convolution_method::direct);
    return few;
  }
  std::vector<convolution_method> all;
  const bool even = padding_is_symmetric(p),
             packs = packing_applies(p) && (even || p.attributes.stride_h > 1);
  if (winograd_applies(p)) all.push_back(convolution_method::winograd_4x4);
  if (direct_applies(p)) all.push_back(convolution_method::direct);
  if (packs) all.push_back(convolution_method::packed);
  all.push_back(even ? convolution_method::plain : convolution_method::padded);
  if (even && has_epilogue(p)) all.push_back(convolution_method::fused);
  if (even && engine_accumulates(p)) all.push_back(convolution_method::adding);
  return all;
}

byte_count method_workspace(const convolution_problem& p, convolution_method method, std::int64_t parts) {
  if (method == convolution_method::winograd_4x4 || method == convolution_method::direct) return 0;
  const scratch_layout s = scratch_layout_of(p, method, parts);
  return s.packed_x + s.packed_w;
}

std::vector<std::int64_t> part_counts_of(const convolution_problem& p) {
  std::vector<std::int64_t> all;
  for (std::int64_t parts = 1; parts <= p.x.n; ++parts) {
    // Numbers of parts close to each other perform alike, so most are left out.
    if (p.x.n % parts == 0 && (all.empty() || parts >= all.back() * 2 || parts == p.x.n))
      all.push_back(parts);
  }
  return all;
}

void visit_recipes(session& gpu, const convolution_problem& p, convolution_method method, std::int64_t parts,
                   const std::function<bool(const convolution_recipe&)>& visit, std::int64_t first,
                   const recipe_filter& wants) {
  const auto named = [&](convolution_recipe recipe) {
    recipe.name = recipe_name(method, parts, recipe.name);
    recipe.engine_family = recipe_name(method, 1, recipe.engine_family);
    return visit(recipe);
  };
  if (engine_accumulates(p) && method != convolution_method::adding) {
    visit_accumulating_recipes(gpu, p, method, parts, visit, first, wants);
  } else if (method == convolution_method::winograd_4x4) {
    visit_winograd(gpu, p, parts, named);
  } else if (method == convolution_method::direct) {
    visit_direct(gpu, p, parts, named);
  } else {
    visit_engine_recipes(gpu, p, method, parts, named, first, wants);
  }
}

std::optional<convolution_recipe> find_recipe(session& gpu, const convolution_problem& p,
                                              const engine_choice& choice) {
  std::optional<convolution_recipe> found;
  if (choice.parts < 1 || p.x.n % choice.parts != 0) return found;
  for (const convolution_method method : methods_of(p)) {
    if (method != method_of(choice.engine)) continue;
    const auto look = [&](const convolution_recipe& recipe) {
      if (recipe.name == choice.engine) found = recipe;
      return !found;
    };
    const auto wanted = [&](const std::string& name) { return name == choice.engine; };
    visit_recipes(gpu, p, method, choice.parts, look, choice.position, wanted);
    if (!found) visit_recipes(gpu, p, method, choice.parts, look, 0, wanted);
  }
  return found;
}

}  // namespace um
