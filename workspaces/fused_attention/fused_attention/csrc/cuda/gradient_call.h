// What the kernels of the gradients are given, by value.
#pragma once

#include "schedule.h"

namespace fused_attention {

struct GradientCall {
  Call call;  // its tiles have kGradientRows rows
  GradientParams g;
  bool vectors;  // all rows can be read and written 16 bytes at a time
};

inline GradientCall make_gradient_call(const Call& call, const GradientParams& g) {
  const AttentionParams& p = call.p;
  GradientCall c{call, g, call.vectors};
  c.vectors = c.vectors && is_multiple_of_16(p, g.out_gradient, g.out_strides, p.heads) &&
              is_multiple_of_16(p, g.dq, g.dq_strides, p.heads) && is_multiple_of_16(p, g.dk, g.dk_strides, p.kv_heads) &&
              is_multiple_of_16(p, g.dv, g.dv_strides, p.kv_heads);
  return c;
}

// Thread blocks of the pass over keys.
FA_HOST_DEVICE int64_t key_piece_count(const AttentionParams& p) {
  return p.batch * p.kv_heads * ((p.k_len + kTileKeys - 1) / kTileKeys);
}

}  // namespace fused_attention
