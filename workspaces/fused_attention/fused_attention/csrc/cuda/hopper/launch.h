#pragma once

#include <cuda_runtime_api.h>

#include "tensor_map.h"

namespace fused_attention {

// Whether this library holds the kernel for Hopper: it was compiled for 9.0a, with CUTLASS's headers.
bool hopper_built();

// Queues the kernel on the current device, which must be of compute capability 9.0, for a call that hopper_supports.
// The view's tiles, if there are any, are hopper::kTileRows by hopper::kTileKeys. Returns what the launch answered.
cudaError_t launch_hopper(const AttentionParams& params, const TileView& view, cudaStream_t stream);

}  // namespace fused_attention
