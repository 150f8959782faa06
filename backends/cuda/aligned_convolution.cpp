#include "backends/cuda/aligned_convolution.hpp"

#include <utility>
#include <vector>

#include "backends/cuda/library_check.hpp"

namespace um {
namespace {

constexpr std::uint32_t enough = 16;

// Of x, w, y [, b].
std::vector<byte_count> bytes_of_operands(const convolution_problem& p) {
  const dtype type = p.arithmetic == precision::bf16 ? dtype::bf16 : dtype::f32;
  const dtype filter = p.kind == convolution_kind::backward_filter ? dtype::f32 : type;
  const auto bytes = [](const dims& shape, dtype of) {
    return static_cast<byte_count>(elements(shape)) * size_of(of);
  };
  std::vector<byte_count> all{bytes(p.x, type), bytes(p.w, filter), bytes(p.y, type)};
  if (p.bias) all.push_back(bytes({1, p.y.c, 1, 1}, dtype::f32));
  return all;
}

std::size_t result_of(convolution_kind kind) {
  return kind == convolution_kind::backward_data ? 0 : kind == convolution_kind::backward_filter ? 1 : 2;
}

struct copy {
  void* to = nullptr;
  const void* from = nullptr;
  byte_count bytes = 0;
};

kernel_call bind_copied(session& on, const convolution_problem& p, const engine& inner,
                        const bound_operands& given) {
  const std::vector<byte_count> bytes = bytes_of_operands(p);
  const std::size_t result = result_of(p.kind);
  bound_operands aligned{{}, given.workspace};
  std::vector<copy> before;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    aligned.data.push_back(aligned.workspace);
    if (i != result || p.accumulate) before.push_back({aligned.workspace, given.data.at(i), bytes[i]});
    aligned.workspace += round_up(bytes[i], arena_alignment);
  }
  const copy after{given.data.at(result), aligned.data[result], bytes[result]};
  return [stream = on.compute().stream, before = std::move(before), call = inner.bind(aligned), after] {
    const auto run = [stream](const copy& c) {
      check(cudaMemcpyAsync(c.to, c.from, c.bytes, cudaMemcpyDeviceToDevice, stream));
    };
    for (const copy& c : before) run(c);
    call();
    run(after);
  };
}

}  // namespace

engine choose_engine_for(session& on, const convolution_problem& p, std::uint32_t alignment,
                         byte_count workspace_cap) {
  if (alignment % enough == 0) return choose_engine(on, p, workspace_cap);
  byte_count copies = 0;
  for (const byte_count bytes : bytes_of_operands(p)) copies += round_up(bytes, arena_alignment);
  if (copies > workspace_cap) {
    throw unsupported(signature_of(p) + " on operands aligned to " + std::to_string(alignment) +
                      " bytes: copies of them take " + to_text(copies) + ", more than the " +
                      to_text(workspace_cap) + " of workspace");
  }
  const engine inner = choose_engine(on, p, workspace_cap - copies);
  engine_choice choice = inner.choice;
  choice.engine = "copied " + choice.engine;
  choice.workspace_bytes += copies;
  return {choice, [&on, p, inner](const bound_operands& given) { return bind_copied(on, p, inner, given); }};
}

}  // namespace um
