// Replaces the CUDA kernel in a build without nvcc, so that a call raises a helpful error.
#include <torch/library.h>

#include "../ops.h"

namespace fused_attention {

namespace {

void launch_missing(const AttentionParams&, at::Device device) {
  TORCH_CHECK(false, "q, k and v are on ", device, ", and this build of fused_attention has no CUDA kernel; build it "
              "where torch has CUDA and nvcc is under CUDA_HOME");
}

}  // namespace

}  // namespace fused_attention

TORCH_LIBRARY_IMPL(fused_attention, CUDA, m) {
  m.impl("forward", fused_attention::forward_on<fused_attention::launch_missing>);
  m.impl("forward_lse", fused_attention::forward_lse_on<fused_attention::launch_missing>);
}
