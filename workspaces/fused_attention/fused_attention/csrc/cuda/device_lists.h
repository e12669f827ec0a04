// A call's lists of key tiles in the device's memory.
#pragma once

#include <c10/cuda/CUDAStream.h>

#include "../compat.h"
#include "../params.h"
#include "tile_view.h"

namespace fused_attention {

struct DeviceLists {
  TileView view;      // exists() is false where a call needs none
  at::Tensor memory;  // what the view points into, held until the kernel is queued
  at::Tensor structure;
};

// What the structured and the boolean mask of a call come to in tiles of rows x keys. The host waits for the device
// only when it meets a structured mask for the first time, whose lists it makes and copies; they are kept for later
// calls, up to a bound. Those of a boolean mask are made on the device in each call.
DeviceLists make_lists(const AttentionParams& params, int32_t rows, int32_t keys, c10::cuda::CUDAStream stream);

}  // namespace fused_attention
