// Stands in for the CUDA kernel in a build without nvcc, so that a call says what is wrong.
#include <torch/library.h>

#include "../compat.h"

namespace fused_attention {

namespace {

at::Tensor forward_missing(const at::Tensor& q, const at::Tensor&, const at::Tensor&, const Optional<at::Tensor>&,
                           bool, Optional<double>) {
  TORCH_CHECK(false, "q, k or v is on a CUDA device (q: ", q.device(), "), and this build of fused_attention has no "
              "CUDA kernel; build it where torch has CUDA and nvcc is under CUDA_HOME");
}

}  // namespace

}  // namespace fused_attention

TORCH_LIBRARY_IMPL(fused_attention, CUDA, m) {
  m.impl("forward", fused_attention::forward_missing);
}
