// One attention call as plain data: what crosses from the torch operator into a kernel.
#pragma once

#include "mask.h"

namespace fused_attention {

enum class DataType : int { kFloat32, kBFloat16, kFloat16 };

// In elements. The head dimension is contiguous; every other stride is arbitrary, zero included.
struct Strides {
  int64_t batch, head, row;
};

struct AttentionParams {
  const void* q;  // [batch, heads, q_len, head_dim]
  const void* k;  // [batch, kv_heads, k_len, head_dim]
  const void* v;  // [batch, kv_heads, k_len, head_dim]
  void* out;      // [batch, heads, q_len, head_dim]
  Strides q_strides, k_strides, v_strides, out_strides;
  Mask mask;
  int64_t batch, heads, kv_heads, q_len, k_len;
  int head_dim;
  float scale;
  DataType dtype;

  // Grouped queries: consecutive query heads share a key/value head.
  FA_HOST_DEVICE int64_t kv_head(int64_t head) const { return head / (heads / kv_heads); }
};

template <class T>
FA_HOST_DEVICE T* rows_of(T* base, const Strides& strides, int64_t batch, int64_t head) {
  return base + batch * strides.batch + head * strides.head;
}

}  // namespace fused_attention
