// What the emulated kernels' tests hand over as plain numbers, taken apart alike.
#pragma once

#include "params.h"

namespace fused_attention {

inline Strides take_strides(const int64_t*& numbers) {
  const Strides strides{numbers[0], numbers[1], numbers[2]};
  numbers += 3;
  return strides;
}

// batch, heads, kv_heads, q_len, k_len.
inline void take_lengths(const int64_t*& numbers, AttentionParams& p) {
  p.batch = numbers[0];
  p.heads = numbers[1];
  p.kv_heads = numbers[2];
  p.q_len = numbers[3];
  p.k_len = numbers[4];
  numbers += 5;
}

// Three each of q, k, v and out.
inline void take_tensor_strides(const int64_t*& numbers, AttentionParams& p) {
  p.q_strides = take_strides(numbers);
  p.k_strides = take_strides(numbers);
  p.v_strides = take_strides(numbers);
  p.out_strides = take_strides(numbers);
}

inline void take_mask_strides(const int64_t*& numbers, Mask& mask) {
  mask.batch_stride = numbers[0];
  mask.head_stride = numbers[1];
  mask.row_stride = numbers[2];
  mask.key_stride = numbers[3];
  numbers += 4;
}

}  // namespace fused_attention
