#include "backends/cuda/kernels/launch.cuh"
#include "backends/cuda/kernels/pitched_copy.hpp"

namespace um::kernels {
namespace {

// Shorter runs are copied by a kernel, since a copy engine takes each run by itself.
constexpr std::uint64_t short_run = 64;

// The largest pitch that cudaMemcpy2D and cudaMemcpy3D accept.
constexpr std::uint64_t max_pitch = std::numeric_limits<std::int32_t>::max();

// The runs of a launch share these properties. Runs are counted through the slices.
struct runs_of_box {
  byte_box box;
  divisor by_chunk, by_row;
};

template <class Vector>
__global__ void __launch_bounds__(block_threads)
    copy_runs(const std::byte* from, std::byte* to, runs_of_box runs, std::uint32_t first_run,
              std::uint32_t count) {
  for (auto i = thread_index<std::uint32_t>(); i < count; i += grid_stride<std::uint32_t>()) {
    std::uint32_t slice = i;
    const std::uint32_t chunk = runs.by_chunk.take_remainder(slice);
    slice += first_run;
    const std::uint32_t row = runs.by_row.take_remainder(slice);
    const byte_box& b = runs.box;
    const std::uint64_t in_run = std::uint64_t{chunk} * sizeof(Vector);
    const auto* const source = from + slice * b.from_slice + row * b.from_pitch + in_run;
    auto* const target = to + slice * b.to_slice + row * b.to_pitch + in_run;
    *reinterpret_cast<Vector*>(target) = *reinterpret_cast<const Vector*>(source);
  }
}

constexpr std::uint64_t index_limit = (std::uint64_t{1} << 31) - 1;

// Copies in launches of at most `max_vectors` vectors.
template <class Vector>
void launch_runs(cudaStream_t stream, std::byte* to, const std::byte* from, const byte_box& box,
                 std::uint64_t max_vectors = index_limit) {
  const std::uint64_t chunks = box.width / sizeof(Vector), runs = box.height * box.depth;
  if (chunks > max_vectors) {  // a launch copies the first part of every run, the next launch the rest
    byte_box front = box, back = box;
    front.width = max_vectors * sizeof(Vector);
    back.width -= front.width;
    launch_runs<Vector>(stream, to, from, front, max_vectors);
    return launch_runs<Vector>(stream, to + front.width, from + front.width, back, max_vectors);
  }
  const std::uint64_t at_once = max_vectors / chunks;
  const runs_of_box all{box, divisor(static_cast<std::int64_t>(chunks)),
                        divisor(static_cast<std::int64_t>(box.height))};
  for (std::uint64_t first = 0; first < runs; first += at_once) {
    const std::uint64_t count = std::min(at_once, runs - first) * chunks;
    constexpr std::uint64_t max_blocks = 2048;
    const auto blocks =
        static_cast<int>(std::min<std::uint64_t>((count + block_threads - 1) / block_threads, max_blocks));
    launch({stream}, &copy_runs<Vector>, blocks, block_threads, from, to, all,
           static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(count));
  }
}

bool is_empty(const byte_box& box) {
  return box.width == 0 || box.height == 0 || box.depth == 0;
}

// Sets unused pitches as if runs and slices were contiguous. Joins runs that are contiguous on both sides.
byte_box merge_contiguous_runs(byte_box box) {
  for (int axis = 0; axis < 2; ++axis) {
    if (box.height == 1) box.from_pitch = box.to_pitch = box.width;
    if (box.from_pitch != box.width || box.to_pitch != box.width) break;
    box.width *= box.height;
    box.height = box.depth;
    box.from_pitch = box.from_slice;
    box.to_pitch = box.to_slice;
    box.depth = 1;
  }
  if (box.height == 1) box.from_pitch = box.to_pitch = box.width;
  if (box.from_slice == box.from_pitch * box.height && box.to_slice == box.to_pitch * box.height) {
    box.height *= box.depth;
    box.depth = 1;
  }
  if (box.depth == 1) {
    box.from_slice = box.from_pitch * box.height;
    box.to_slice = box.to_pitch * box.height;
  }
  return box;
}

cudaPitchedPtr pitched_pointer(const std::byte* at, std::uint64_t pitch, std::uint64_t slice,
                               const byte_box& box) {
  return {const_cast<std::byte*>(at), pitch, box.width, slice / pitch};
}

}  // namespace

void copy_box_by_kernel(cudaStream_t stream, std::byte* to, const std::byte* from, const byte_box& given) {
  if (is_empty(given)) return;
  const byte_box box = merge_contiguous_runs(given);
  const std::uint64_t all = box.width | box.from_pitch | box.from_slice | box.to_pitch | box.to_slice |
                            reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
  if (all % 16 == 0) return launch_runs<uint4>(stream, to, from, box);
  if (all % 8 == 0) return launch_runs<uint2>(stream, to, from, box);
  if (all % 4 == 0) return launch_runs<std::uint32_t>(stream, to, from, box);
  if (all % 2 == 0) return launch_runs<std::uint16_t>(stream, to, from, box);
  launch_runs<std::uint8_t>(stream, to, from, box);
}

void copy_box_by_engine(cudaStream_t stream, std::byte* to, const std::byte* from, const byte_box& given) {
  if (is_empty(given)) return;
  const byte_box box = merge_contiguous_runs(given);
  if (box.height == 1 && box.depth == 1) {
    return check(cudaMemcpyAsync(to, from, box.width, cudaMemcpyDefault, stream));
  }
  if (std::max(box.from_pitch, box.to_pitch) > max_pitch) {
    for (std::uint64_t run = 0; run < box.height * box.depth; ++run) {
      const std::uint64_t slice = run / box.height, row = run % box.height;
      check(cudaMemcpyAsync(to + slice * box.to_slice + row * box.to_pitch,
                            from + slice * box.from_slice + row * box.from_pitch, box.width,
                            cudaMemcpyDefault, stream));
    }
    return;
  }
  if (box.from_slice % box.from_pitch == 0 && box.to_slice % box.to_pitch == 0) {
    cudaMemcpy3DParms parameters{};
    parameters.srcPtr = pitched_pointer(from, box.from_pitch, box.from_slice, box);
    parameters.dstPtr = pitched_pointer(to, box.to_pitch, box.to_slice, box);
    parameters.extent = {box.width, box.height, box.depth};
    parameters.kind = cudaMemcpyDefault;
    return check(cudaMemcpy3DAsync(&parameters, stream));
  }
  for (std::uint64_t d = 0; d < box.depth; ++d) {
    check(cudaMemcpy2DAsync(to + d * box.to_slice, box.to_pitch, from + d * box.from_slice, box.from_pitch,
                            box.width, box.height, cudaMemcpyDefault, stream));
  }
}

void copy_box(cudaStream_t stream, std::byte* to, const std::byte* from, const byte_box& box) {
  if (merge_contiguous_runs(box).width < short_run) return copy_box_by_kernel(stream, to, from, box);
  copy_box_by_engine(stream, to, from, box);
}

}  // namespace um::kernels
