// A call's lists of key tiles, in device memory.
#pragma once

#include <c10/cuda/CUDAStream.h>

#include "../compat.h"
#include "../params.h"
#include "tile_view.h"

namespace fused_attention {

struct DeviceLists {
  TileView view;      // exists() is false if the call needs no lists
  at::Tensor memory;  // the memory of the view; keep it until the kernel is queued
  at::Tensor structure;
};

// Lists of tiles of rows x keys for a call's structured and boolean mask. The lists of a structured mask are made on
// the host, copied once, and cached up to a bound; only that first copy waits for the device. The lists of a boolean
// mask are made on the device in each call.
DeviceLists make_lists(const AttentionParams& params, int32_t rows, int32_t keys, c10::cuda::CUDAStream stream);

}  // namespace fused_attention
