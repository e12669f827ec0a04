// Turns a call's parameters into the Hopper kernel's launch parameters.
#pragma once

#include "schedule.h"
#include "tensor_map.h"

namespace fused_attention {
namespace hopper {

// How many query heads to compute side by side, so that their keys and values stay in `cache_bytes` until all their
// query tiles are done. Whole groups that share keys, unless even one does not fit.
inline int64_t side_by_side(const AttentionParams& p, int64_t cache_bytes) {
  const int64_t group = p.heads / p.kv_heads, bytes = 2 * p.k_len * p.head_dim * 2;
  const int64_t kv_heads = cache_bytes / (bytes > 0 ? bytes : 1);
  const int64_t all = p.batch * p.heads, fitting = group * (kv_heads > 0 ? kv_heads : 1);
  return fitting < all ? fitting : all;
}

// `encode` makes a Map from a TensorMap. Only for calls that hopper_supports.
template <class Map, class Encode>
Call<Map> plan(const AttentionParams& p, const TileView& view, int64_t cache_bytes, const Encode& encode) {
  TensorMaps maps{};
  describe(p, &maps);
  Call<Map> call{};
  call.q_map = encode(maps.q);
  call.k_map = encode(maps.k);
  call.v_map = encode(maps.v);
  call.params = p;
  call.view = view;
  call.query_tiles = static_cast<int32_t>(query_tiles(p));
  call.pieces = static_cast<int32_t>(query_tiles(p) * p.batch * p.heads);
  call.section_heads = static_cast<int32_t>(side_by_side(p, cache_bytes));
  // Packed sequences follow each other in the rows: there is no batch dimension.
  const bool packed = p.cu_q != nullptr;
  call.q_head_step = maps.q.head_step;
  call.k_head_step = maps.k.head_step;
  call.v_head_step = maps.v.head_step;
  call.q_batch_step = packed ? 0 : maps.q.batch_step;
  call.k_batch_step = packed ? 0 : maps.k.batch_step;
  call.v_batch_step = packed ? 0 : maps.v.batch_step;
  return call;
}

}  // namespace hopper
}  // namespace fused_attention
