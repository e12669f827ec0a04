// fused_attention::forward on CUDA devices.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "../ops.h"
#include "launch.h"

namespace fused_attention {

namespace {

void launch(const AttentionParams& params, at::Device device) {
  const c10::cuda::CUDAGuard guard(device);
  C10_CUDA_CHECK(launch_attention(params, c10::cuda::getCurrentCUDAStream()));
}

}  // namespace

}  // namespace fused_attention

TORCH_LIBRARY_IMPL(fused_attention, CUDA, m) {
  m.impl("forward", fused_attention::forward_on<fused_attention::launch>);
}
