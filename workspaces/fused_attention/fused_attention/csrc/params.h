// One attention call as plain data, which the torch operator passes to a kernel.
#pragma once

#include "mask.h"
#include "structure.h"

namespace fused_attention {

enum class DataType : int { kFloat32, kBFloat16, kFloat16 };

// In elements. The head dimension is contiguous; every other stride is arbitrary, zero included.
struct Strides {
  int64_t batch, head, row;
};

// Packed sequences (cu_q not null): q, k, v and out are [1, heads, all rows, head_dim], and sequence b has the rows
// cu_q[b] to cu_q[b + 1] of q and out, and cu_k[b] to cu_k[b + 1] of k and v. `batch` is then the number of sequences,
// q_len and k_len are upper bounds of their lengths, and batch strides are zero.
struct AttentionParams {
  const void* q;  // [batch, heads, q_len, head_dim]
  const void* k;  // [batch, kv_heads, k_len, head_dim]
  const void* v;  // [batch, kv_heads, k_len, head_dim]
  void* out;      // [batch, heads, q_len, head_dim]
  float* lse;     // [batch, heads, q_len] log2 of the sum of 2^score, infinite for a row without keys; null: not wanted
  Strides q_strides, k_strides, v_strides, out_strides;
  Mask mask;
  int64_t batch, heads, kv_heads, q_len, k_len;
  int64_t q_rows, k_rows;  // size of the tensors' dimension 2; differs from the lengths only in packed sequences
  int head_dim;
  float scale;
  DataType dtype;
  const int32_t *cu_q, *cu_k;  // [batch + 1], on the device of q; null: not packed
  Structure structure;         // a key must pass this and `mask`; in host memory
  const float* alibi;          // [heads] slopes, on the device of q: slope * -|key - row| is added; null: none

  // Grouped queries: consecutive query heads share a key/value head.
  FA_HOST_DEVICE int64_t kv_head(int64_t head) const { return head / (heads / kv_heads); }
  // In an array with one number for each row, such as lse: the number of a head's first row.
  FA_HOST_DEVICE float* of_head(float* numbers, int64_t b, int64_t head) const {
    return cu_q ? numbers + head * q_rows + cu_q[b] : numbers + (b * heads + head) * q_rows;
  }
};

// The tensors of a backward pass, besides those of its forward pass.
struct GradientParams {
  const void* out_gradient;  // as `out`
  void *dq, *dk, *dv;        // as q, k and v; null: not required
  Strides out_strides, dq_strides, dk_strides, dv_strides;
  float* delta;  // as lse: memory for a kernel
};

template <class T>
FA_HOST_DEVICE T* rows_of(T* base, const Strides& strides, int64_t batch, int64_t head) {
  return base + batch * strides.batch + head * strides.head;
}

}  // namespace fused_attention
