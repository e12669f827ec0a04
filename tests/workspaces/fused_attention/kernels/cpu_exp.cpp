// The vector power of two, callable from Python.
#define FA_ISA isa_test
#define FA_VECTOR_BYTES 16
#define FA_LEVEL 0
#include "cpu/vector.h"

using namespace fused_attention::isa_test;

template <int kDegree>
static void powers(const float* in, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) store(out + i, exp2<kDegree>(load(in + i)));
}

extern "C" {

void powers_6(const float* in, float* out, int64_t n) {
  powers<6>(in, out, n);
}

void powers_3(const float* in, float* out, int64_t n) {
  powers<3>(in, out, n);
}
}
