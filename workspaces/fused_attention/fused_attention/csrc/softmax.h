// The online softmax of one row, or of a vector of rows. The kernels and the tests share it.
//
// A row's scores arrive in tiles. The row keeps the maximum so far and the sum of exp(score - maximum). When a tile
// raises the maximum, the earlier sums are multiplied by exp(old - new). See Milakov and Gimelshein, "Online normalizer
// calculation for softmax" (arXiv:1805.02867).
#pragma once

#include "portable.h"

namespace fused_attention {

struct ScalarMath {
  using Value = float;
  FA_HOST_DEVICE static float broadcast(float x) { return x; }
  FA_HOST_DEVICE static float select(bool condition, float yes, float no) { return condition ? yes : no; }
  // expf on the host; on the device the hardware's exp2, whose error for x <= 0 is far below a rounding of the sum.
  FA_HOST_DEVICE static float exp(float x) {
#ifdef __CUDA_ARCH__
    return __expf(x);
#else
    return std::exp(x);
#endif
  }
};

template <class Math>
struct OnlineSoftmax {
  using Value = typename Math::Value;

  Value maximum;  // of the scores seen; -inf while every key was masked out
  Value sum;      // of exp(score - maximum)

  FA_HOST_DEVICE void reset() {
    maximum = Math::broadcast(minus_infinity());
    sum = Math::broadcast(0.0f);
  }

  // The finite value that is subtracted from scores: in a row without keys so far, -inf - -inf would be NaN.
  FA_HOST_DEVICE Value origin() const {
    return Math::select(maximum == Math::broadcast(minus_infinity()), Math::broadcast(0.0f), maximum);
  }

  // Adds a tile's maximum. Returns the factor for earlier sums and outputs.
  FA_HOST_DEVICE Value raise(Value tile_maximum) {
    const Value previous = maximum;
    maximum = Math::select(tile_maximum > previous, tile_maximum, previous);
    const Value correction = Math::exp(previous - origin());
    sum = sum * correction;
    return correction;
  }

  // Adds the tile's sum of exp(score - origin()).
  FA_HOST_DEVICE void add(Value tile_sum) { sum = sum + tile_sum; }

  // The output of a row from its weighted sum of values: zero where every key was masked out.
  FA_HOST_DEVICE Value normalise(Value weighted) const {
    const Value zero = Math::broadcast(0.0f);
    return Math::select(sum == zero, zero, weighted / sum);
  }
};

}  // namespace fused_attention
