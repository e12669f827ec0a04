// fused_attention::forward on the CPU.
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>

#include "../ops.h"
#include "attention.h"

namespace fused_attention {

namespace {

// Multiply-adds below which a thread costs more than it brings: a few microseconds of work.
constexpr double kWorkPerThread = 1 << 19;

void launch(const AttentionParams& params, at::Device) {
  const AttendFunction attend = select_kernel().attend;
  const int64_t pieces = params.batch * params.heads * row_blocks(params);
  const double rows = static_cast<double>(std::min<int64_t>(params.q_len, kBlockRows));
  const double work = 2 * rows * static_cast<double>(params.k_len) * params.head_dim;
  const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(kWorkPerThread / work));
  const size_t bytes = scratch_floats(params) * sizeof(float);
  at::parallel_for(0, pieces, grain, [&](int64_t begin, int64_t end) {
    const std::unique_ptr<char[]> memory(new char[bytes + kScratchAlignment]);
    void* start = memory.get();
    size_t space = bytes + kScratchAlignment;
    std::align(kScratchAlignment, bytes, start, space);
    attend(params, begin, end, static_cast<float*>(start));
  });
}

std::string cpu_capability() {
  return select_kernel().capability;
}

}  // namespace

}  // namespace fused_attention

// Which of the CPU kernels runs here, for a benchmark to record.
TORCH_LIBRARY_FRAGMENT(fused_attention, m) {
  m.def("cpu_capability", fused_attention::cpu_capability);
}

TORCH_LIBRARY_IMPL(fused_attention, CPU, m) {
  m.impl("forward", fused_attention::forward_on<fused_attention::launch>);
}
