#include "gradient_launch.cuh"

namespace fused_attention {

cudaError_t launch_gradients_float16(const GradientCall& call, cudaStream_t stream) {
  return launch_gradients<Float16>(call, stream);
}

}  // namespace fused_attention
