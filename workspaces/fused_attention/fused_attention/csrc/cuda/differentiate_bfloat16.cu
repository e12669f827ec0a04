#include "gradient_launch.cuh"

namespace fused_attention {

cudaError_t launch_gradients_bfloat16(const GradientCall& call, cudaStream_t stream) {
  return launch_gradients<BFloat16>(call, stream);
}

}  // namespace fused_attention
