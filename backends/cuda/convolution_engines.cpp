#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <set>
#include <utility>

#include "backends/bf16.hpp"
#include "backends/cuda/convolution_kernels.hpp"
#include "backends/cuda/convolution_problem.hpp"
#include "backends/cuda/convolution_recipes.hpp"
#include "backends/cuda/engine_trial.hpp"
#include "backends/cuda/session.hpp"

namespace um {
namespace {

kernels::sampled_convolution sampled_problem_of(const convolution_problem& p) {
  kernels::sampled_convolution made{
      p.x, p.w, p.y, p.attributes, operand_type(p.arithmetic), operand_type(p.arithmetic), p.order, 2};
  if (p.kind == convolution_kind::backward_data) made.result_operand = 0;
  if (p.kind == convolution_kind::backward_filter) {
    made.result_operand = 1;
    made.result = dtype::f32;
  }
  return made;
}

// Times recipes on pseudo-random operands in scratch memory, and checks their results against double
// precision.
class recipe_timer {
 public:
  recipe_timer(session& gpu, const convolution_problem& p, byte_count workspace_cap)
      : session_(gpu),
        samples_(sampled_problem_of(p)),
        accuracy_(tolerance_of(p.arithmetic)),
        accumulates_(p.accumulates) {
    const std::array<byte_count, 4> bytes{
        aligned_bytes(p.x, operand_type(p.arithmetic)), aligned_bytes(p.w, dtype::f32),
        aligned_bytes(p.y, operand_type(p.arithmetic)), aligned_bytes({1, p.y.c, 1, 1}, dtype::f32)};
    byte_count end = 0;
    for (const byte_count size : bytes) end += size;
    std::byte* at = gpu.random_scratch(end + workspace_cap, operand_type(p.arithmetic));
    for (const byte_count size : bytes) {
      operands_.data.push_back(at);
      at += size;
    }
    operands_.workspace = at;
    const auto& data = operands_.data;
    const auto* const b = p.has_bias ? reinterpret_cast<const float*>(data[3]) : nullptr;
    expected_ = kernels::sampled_results(gpu.compute(), samples_, data[0], data[1], data[2], b);
    if (!accumulates_) return;
    for (double& value : expected_) value += prefilled_value(samples_.result);
  }

  // Times one call by trial_time(). Returns `never` if the recipe fails or is not accurate.
  nanoseconds time(const convolution_recipe& recipe, nanoseconds to_beat) const {
    try {
      const kernel_call call = recipe.bind(operands_);
      if (session_.options().brief_search) return time_if_accurate(call);
      return trial_time(
          {[&] { return time_if_accurate(call); },
           [&](int before, int counted) { return median_time(session_, call, before, counted); }},
          to_beat);
    } catch (const std::runtime_error&) {  // the library failed, or memory is short
      return never;
    }
  }

 private:
  static byte_count aligned_bytes(const dims& shape, dtype type) {
    return round_up(static_cast<byte_count>(element_count(shape)) * element_bytes(type), arena_alignment);
  }

  static constexpr int prefill_byte = 0x3f;  // four such bytes are 0.747 in f32, two are 0.746 in bf16
  static double prefilled_value(dtype type) {
    return type == dtype::bf16 ? from_bf16(0x3f3f) : std::bit_cast<float>(0x3f3f3f3f);
  }

  // Times a first call. Returns `never` if its result is not accurate. The result starts as NaNs, so that
  // elements that are not written show. If the call adds to it, it starts as prefilled_value().
  nanoseconds time_if_accurate(const kernel_call& call) const {
    const auto which = static_cast<std::size_t>(samples_.result_operand);
    std::byte* const result = operands_.data.at(which);
    const std::array<const dims*, 3> shapes{&samples_.x, &samples_.w, &samples_.y};
    const byte_count bytes =
        static_cast<byte_count>(element_count(*shapes.at(which))) * element_bytes(samples_.result);
    check(cudaMemsetAsync(result, accumulates_ ? prefill_byte : 0xff, bytes, session_.compute().stream));
    const nanoseconds time = median_time(session_, call, 0, 1);
    const double error = kernels::sampled_relative_error(session_.compute(), samples_, result, expected_);
    return error <= accuracy_ ? time : never;
  }

  session& session_;
  kernels::sampled_convolution samples_;
  double accuracy_;
  bool accumulates_;
  bound_operands operands_;
  std::vector<double> expected_;
};

nanoseconds now() {
  const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_start).count();
}

// The search tries every method, and each engine with the fewest parts with which it fits the cap. If an
// engine is known that won for another batch, it tries only that engine's family, in parts of the same size:
// building other engines takes most of the time. (Of 384 parts of VGG-16 in bf16 on an H100 that family won
// 376.)
class engine_search {
 public:
  engine_search(session& gpu, const convolution_problem& p, byte_count cap)
      : session_(gpu), problem_(p), cap_(cap), timer_(gpu, p, cap) {}

  std::optional<convolution_recipe> find_fastest(nanoseconds& time, const session::precedent* known) {
    if (known != nullptr && !is_brief() && try_precedent(*known)) {
      time = best_time_;
      return best_;
    }
    for (const convolution_method method : methods()) {
      if (best_ && is_brief()) break;
      if (method == convolution_method::winograd_4x4 || method == convolution_method::direct) {
        try_smaller_parts(method);
      } else {
        try_cudnn_engines(method);
      }
    }
    time = best_time_;
    return best_;
  }

 private:
  // A brief search takes the first accurate recipe. cuDNN's engines come first, since they are more exact.
  bool is_brief() const { return session_.options().brief_search; }

  std::vector<convolution_method> methods() const {
    std::vector<convolution_method> all = methods_of(problem_);
    if (is_brief()) {
      std::ranges::stable_partition(
          all, [](auto m) { return m == convolution_method::plain || m == convolution_method::padded; });
    }
    return all;
  }

  nanoseconds try_recipe(const convolution_recipe& recipe) {
    const nanoseconds time = timer_.time(recipe, best_time_);
    if (time < best_time_) {
      best_time_ = time;
      best_ = recipe;
    }
    return time;
  }

  // Returns whether the family has run within the cap.
  bool try_precedent(const session::precedent& known) {
    constexpr int max_tries = 4;
    const convolution_method method = method_of(known.engine);
    const bool is_built_fast =
        method == convolution_method::winograd_4x4 || method == convolution_method::direct;
    const std::string family = family_of(known.engine);
    const auto wants = [&](const std::string& name) { return family_of(name) == family; };
    for (const std::int64_t parts : part_counts_of(problem_)) {
      if (problem_.x.n / parts > known.images || method_workspace(problem_, method, parts) > cap_) continue;
      int tried = 0;
      visit_recipes(
          session_, problem_, method, parts,
          [&](const convolution_recipe& recipe) {
            const nanoseconds before = best_time_;
            if (recipe.workspace_bytes <= cap_ && (is_built_fast || wants(recipe.name))) try_recipe(recipe);
            return ++tried < max_tries && (is_built_fast || !best_ || best_time_ < before);
          },
          0, wants);
      if (best_) return true;
    }
    return false;
  }

  // Tries smaller parts of a family whose workspace shrinks with the part, as long as they are faster: they
  // may fit the cache.
  void try_smaller_parts(convolution_method method) {
    nanoseconds before = never;
    for (const std::int64_t parts : part_counts_of(problem_)) {
      nanoseconds here = never;
      bool fits = false;
      visit_recipes(session_, problem_, method, parts, [&](const convolution_recipe& recipe) {
        if (recipe.workspace_bytes > cap_) return true;
        fits = true;
        here = std::min(here, try_recipe(recipe));
        return here == never || !is_brief();
      });
      if (fits && (here >= before || is_brief())) return;
      before = std::min(before, here);
    }
  }

  void try_cudnn_engines(convolution_method method) {
    constexpr std::int64_t max_parts = 64;
    std::set<std::string> open;  // families without an engine that ran within the cap
    bool is_first = true;
    for (const std::int64_t parts : part_counts_of(problem_)) {
      if (best_ && (parts > max_parts || (!is_first && open.empty()))) return;
      if (method_workspace(problem_, method, parts) > cap_) continue;
      for (const std::string& family : try_families(method, parts, is_first, open)) open.erase(family);
      is_first = false;
    }
  }

  // With the fewest parts, tries every family and adds to `open` those that do not run (too much workspace,
  // or too large a tensor). With more parts, tries only those in `open`. Returns the families that ran. Once
  // some recipe has run, it ends a list that brings no gain for a while, and skips families that are three
  // times slower than the best.
  std::set<std::string> try_families(convolution_method method, std::int64_t parts, bool is_first,
                                     std::set<std::string>& open) {
    constexpr nanoseconds far = 3;
    search_patience patience(now());
    std::set<std::string> ran, behind;
    visit_recipes(session_, problem_, method, parts, [&](const convolution_recipe& recipe) {
      if (best_ && !is_first && open.count(recipe.engine_family) == 0) return true;
      if (behind.count(recipe.engine_family) != 0) return true;
      const nanoseconds before = best_time_;
      const nanoseconds time = recipe.workspace_bytes > cap_ ? never : try_recipe(recipe);
      if (time == never) {
        if (is_first) open.insert(recipe.engine_family);
        return !best_ || patience.may_continue(now());
      }
      ran.insert(recipe.engine_family);
      if (time / far > best_time_) behind.insert(recipe.engine_family);
      best_time_ < before ? patience.record_gain(now()) : patience.failed_to_gain();
      return !is_brief() && patience.may_continue(now());
    });
    return ran;
  }

  session& session_;
  const convolution_problem& problem_;
  byte_count cap_;
  recipe_timer timer_;
  std::optional<convolution_recipe> best_;
  nanoseconds best_time_ = never;
};

// Front of a precedent's key; the cap follows. Leaves out the batch size, and whether a filter gradient
// accumulates.
std::string precedent_key_prefix(convolution_problem p) {
  p.x.n = p.y.n = 1;
  if (p.kind == convolution_kind::backward_filter) p.accumulates = false;
  return signature_of(p) + " within ";
}

// Returns the engine that won for another batch within this cap, or within a larger one if it fits; else
// nullptr.
const session::precedent* precedent_of(session& gpu, const convolution_problem& p, byte_count cap) {
  const auto& all = gpu.precedents();
  const std::string front = precedent_key_prefix(p);
  const auto own = all.find(front + std::to_string(cap));
  if (own != all.end()) return &own->second;
  for (auto at = all.lower_bound(front); at != all.end() && at->first.starts_with(front); ++at) {
    if (at->second.cap >= cap && at->second.workspace_bytes <= cap) return &at->second;
  }
  return nullptr;
}

convolution_recipe fastest_recipe(session& gpu, const convolution_problem& problem, byte_count cap,
                                  nanoseconds& time) {
  auto best = engine_search(gpu, problem, cap).find_fastest(time, precedent_of(gpu, problem, cap));
  if (!best) {
    throw unsupported("no deterministic engine for " + signature_of(problem) + " within " + to_text(cap) +
                      " of workspace");
  }
  return *std::move(best);
}

bool is_recipe_of_choice(const convolution_recipe& recipe, const engine_choice& choice) {
  return recipe.name == choice.engine && recipe.parts == choice.parts &&
         recipe.workspace_bytes == choice.workspace_bytes;
}

engine make_engine(session& gpu, const convolution_problem& problem, byte_count cap,
                   const std::string& version) {
  std::optional<convolution_recipe> recipe;
  const auto usable = [&](const engine_choice& choice) {
    recipe = find_recipe(gpu, problem, choice);
    return recipe && is_recipe_of_choice(*recipe, choice);
  };
  const auto search = [&]() -> engine_choice {
    nanoseconds time = 0;
    recipe = fastest_recipe(gpu, problem, cap, time);
    return {recipe->name, recipe->position, recipe->workspace_bytes, time, recipe->parts};
  };
  const engine_choice standing = find_or_search(gpu, signature_of(problem), cap, version, usable, search);
  // The stored choice may be that of another process, so its recipe is built.
  if ((!recipe || !is_recipe_of_choice(*recipe, standing)) && !usable(standing)) {
    throw unsupported("engine " + standing.engine + " of the engine cache is not to be had");
  }
  gpu.precedents().try_emplace(
      precedent_key_prefix(problem) + std::to_string(cap),
      session::precedent{recipe->name, problem.x.n / recipe->parts, recipe->workspace_bytes, cap});
  return {standing, recipe->bind};
}

}  // namespace

// The version names the set of recipes that were tried, so new recipes start a new search. " like" marks a
// short search, which tries only the family that won for another batch. Its choice is never used where a full
// search is asked for.
engine choose_engine(session& gpu, const convolution_problem& problem, byte_count workspace_cap) {
  const std::string full = " recipes 5", key = engine_key(signature_of(problem), workspace_cap, full);
  const bool is_known =
      gpu.engines().find(gpu.engine_key(key)) ||
      !gpu.engines().find_within(gpu.engine_key(signature_of(problem)), workspace_cap, full).empty();
  const bool is_like =
      !is_known && !gpu.options().brief_search && precedent_of(gpu, problem, workspace_cap) != nullptr;
  const std::string version = full + (is_like ? " like 3" : "");
  return gpu.cached_engine(engine_key(signature_of(problem), workspace_cap, version),
                           [&] { return make_engine(gpu, problem, workspace_cap, version); });
}

}  // namespace um
