// Only for a build that defines FUSED_ATTENTION_HOPPER: with nvcc 12.3 or newer, CUTLASS's headers, and 9.0 among its
// architectures.
#pragma once

#include <cuda_runtime_api.h>

#include "tensor_map.h"

namespace fused_attention {

// Queues the kernel on the current device, which must be of compute capability 9.0, for a call that hopper_supports.
// The view's tiles, if there are any, are hopper::kTileRows by hopper::kTileKeys. Returns the launch's error code.
cudaError_t launch_hopper(const AttentionParams& params, const TileView& view, cudaStream_t stream);

}  // namespace fused_attention
