// Chooses the kernel of a call, on the host, from plain numbers.
#pragma once

#include "scaling.h"
#include "schedule.h"

namespace fused_attention {

struct DeviceTraits {
  int capability;    // of the GPU: 86 for 8.6
  int architecture;  // that the loaded kernels were compiled for; may be older
  int multiprocessors;
  int64_t l2_bytes;
};

struct LaunchPlan {
  bool tensor_cores;
  bool by_element;  // see Scaling
  int dims;         // the head dimension, padded: 64, 128 or 256
  int warp_rows;    // on tensor cores: 16 or 32
  int rows;         // of a query tile
};

// Tensor cores multiply binary16 from 7.0 on and bfloat16 from 8.0 on; float32 too, as TF32, if `tf32` is true. With 32
// rows a warp, each key read from shared memory serves twice as many products; used if there are enough query tiles to
// fill the GPU.
inline LaunchPlan plan_attention(const AttentionParams& p, const DeviceTraits& device, bool tf32) {
  LaunchPlan plan{};
  plan.by_element = Scaling(p).by_element;
  plan.dims = p.head_dim <= 64 ? 64 : p.head_dim <= 128 ? 128 : 256;
  const bool is_half = p.dtype == DataType::kFloat16, is_float = p.dtype == DataType::kFloat32;
  const bool quad_pairs = device.architecture < 75;  // these always have 32 rows a warp
  plan.tensor_cores = device.architecture >= (is_half ? 70 : 80) && (!is_float || (tf32 && plan.dims <= 128));
  if (quad_pairs && (plan.by_element || plan.dims == 256)) plan.tensor_cores = false;
  if (!plan.tensor_cores) {
    plan.rows = plan.dims == 64 ? 64 : plan.dims == 128 ? 32 : 16;
    return plan;
  }
  const int64_t tall_tiles = p.batch * p.heads * ((p.q_len + 127) / 128);
  const bool can_be_tall = plan.dims <= 128 && !plan.by_element;
  plan.warp_rows = quad_pairs || (can_be_tall && tall_tiles >= 2 * device.multiprocessors) ? 32 : 16;
  plan.rows = 4 * plan.warp_rows;
  return plan;
}

// Whether gradient.cuh has a kernel for the call.
inline bool has_gradients(const AttentionParams& p, const DeviceTraits& device) {
  const int since = p.dtype == DataType::kFloat16 ? 75 : 80;
  return p.dtype != DataType::kFloat32 && device.architecture >= since && p.head_dim <= 128;
}

inline Call make_call(const AttentionParams& p, const TileView& tiles, const LaunchPlan& plan,
                      const DeviceTraits& device) {
  Call call{};
  call.p = p;
  call.tiles = tiles;
  call.query_tiles = static_cast<int32_t>((p.q_len + plan.rows - 1) / plan.rows);
  call.vectors = has_vectors(p);
  // Half of the cache for the keys and values of a section, whole groups of heads at a time.
  const int64_t bytes = 2 * p.k_len * p.head_dim * (p.dtype == DataType::kFloat32 ? 4 : 2);
  const int64_t group = p.heads / p.kv_heads, groups = device.l2_bytes / 2 / (bytes > 0 ? bytes : 1);
  const int64_t section = (groups < 1 ? 1 : groups) * group, pairs = p.batch * p.heads;
  call.section = static_cast<int32_t>(section < pairs ? section : pairs);
  return call;
}

}  // namespace fused_attention
