// The calls that the Hopper kernel supports, and the contents of its TMA descriptors.
#pragma once

#include "../../params.h"
#include "../tile_view.h"
#include "layout.h"

namespace fused_attention {
namespace hopper {

// A tensor for TMA, innermost dimension first: [head_dim, rows, heads, batch]. A dimension of size 1, or of stride 0 by
// expand, has one element here, and its coordinate is multiplied by a step of zero.
struct TensorMap {
  const void* base;
  uint64_t sizes[4];
  uint64_t strides[3];  // in bytes, of dimensions 1 to 3
  int32_t head_step, batch_step;
};

constexpr uint64_t kTmaAlignment = 16;                 // of the address and all strides, in bytes
constexpr uint64_t kTmaMaxStride = uint64_t{1} << 40;  // exclusive
constexpr int64_t kTmaMaxSize = int64_t{1} << 31;      // exclusive: coordinates are signed

// Makes the map of a tensor of two-byte elements. Returns false if TMA cannot read it: a base or stride that is no
// multiple of 16 bytes, expanded rows, or sizes beyond 31 bits.
inline bool describe(const void* base, const Strides& strides, int64_t batch, int64_t heads, int64_t rows,
                     int head_dim, TensorMap* map) {
  const int64_t sizes[3] = {rows, heads, batch};
  const int64_t steps[3] = {strides.row, strides.head, strides.batch};
  map->base = base;
  map->sizes[0] = static_cast<uint64_t>(head_dim);
  if (reinterpret_cast<uintptr_t>(base) % kTmaAlignment != 0) return false;
  for (int i = 0; i < 3; ++i) {
    const bool still = sizes[i] == 1 || (i > 0 && steps[i] == 0);
    const uint64_t bytes = still ? kTmaAlignment : static_cast<uint64_t>(steps[i]) * 2;
    if (steps[i] < 0 || bytes == 0 || bytes % kTmaAlignment != 0 || bytes >= kTmaMaxStride) return false;
    if (sizes[i] < 1 || sizes[i] >= kTmaMaxSize) return false;
    map->sizes[i + 1] = still ? 1 : static_cast<uint64_t>(sizes[i]);
    map->strides[i] = bytes;
    if (i == 1) map->head_step = !still;
    if (i == 2) map->batch_step = !still;
  }
  return true;
}

struct TensorMaps {
  TensorMap q, k, v;
};

inline bool describe(const AttentionParams& p, TensorMaps* maps) {
  const int64_t batch = p.cu_q ? 1 : p.batch;
  return describe(p.q, p.q_strides, batch, p.heads, p.q_rows, p.head_dim, &maps->q) &&
         describe(p.k, p.k_strides, batch, p.kv_heads, p.k_rows, p.head_dim, &maps->k) &&
         describe(p.v, p.v_strides, batch, p.kv_heads, p.k_rows, p.head_dim, &maps->v);
}

inline int64_t query_tiles(const AttentionParams& p) {
  return (p.q_len + kTileRows - 1) / kTileRows;
}

}  // namespace hopper

// Whether the Hopper kernel supports a call. The portable kernel takes the others:
// - float32: wgmma has no float32, and TF32 would be less exact than SDPA;
// - head dimensions above 128 (the accumulator of one consumer would fill its registers) and those that are no multiple
//   of 8, whose rows cannot be written by 16 bytes;
// - additive masks, which would have to be read from memory at every score;
// - boolean masks without a view, or one of other tiles than this kernel's;
// - scales that are not positive, since a row's maximum is taken before scaling;
// - tensors that TMA cannot read (see hopper::describe), and outputs that are not aligned to 16 bytes.
inline bool hopper_supports(const AttentionParams& p, const TileView& view) {
  const Strides& out = p.out_strides;
  const bool aligned_out = reinterpret_cast<uintptr_t>(p.out) % 16 == 0 && out.row % 8 == 0 &&
                           (p.heads == 1 || out.head % 8 == 0) && (p.batch == 1 || out.batch % 8 == 0);
  const bool has_tiles = view.exists() && view.rows == hopper::kTileRows && view.keys == hopper::kTileKeys;
  const bool has_list = p.structure.exists() || p.mask.kind == MaskKind::kBool;
  hopper::TensorMaps maps{};
  return p.dtype != DataType::kFloat32 && p.head_dim % 8 == 0 && p.head_dim <= 128 && p.scale > 0.0f &&
         !p.mask.is_additive() && (has_list || view.exists() ? has_tiles : true) && aligned_out &&
         p.k_len < hopper::kTmaMaxSize - hopper::kTileKeys &&
         hopper::query_tiles(p) * p.batch * p.heads < hopper::kTmaMaxSize && hopper::describe(p, &maps);
}

}  // namespace fused_attention
