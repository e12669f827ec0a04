// Definitions for g++, clang and nvcc alike. Neither this header nor those that include it need torch.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define FA_HOST_DEVICE __host__ __device__ inline
#else
// Always inlined: the CPU kernels compile these headers once for each instruction set, and the linker might keep an
// out-of-line copy with instructions that this machine lacks.
#define FA_HOST_DEVICE inline __attribute__((always_inline))
#endif

namespace fused_attention {

constexpr int kMaxHeadDim = 256;

FA_HOST_DEVICE float minus_infinity() {
  return -INFINITY;
}

FA_HOST_DEVICE uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

FA_HOST_DEVICE float from_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

}  // namespace fused_attention
