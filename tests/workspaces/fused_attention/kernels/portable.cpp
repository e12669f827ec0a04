// The parts that host and device share, callable from Python: compiled by g++ alone.
#include "numeric.h"
#include "softmax.h"

using namespace fused_attention;

extern "C" {

void floats_from_halves(const uint16_t* in, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = to_float(Float16{in[i]});
}

void floats_from_bfloats(const uint16_t* in, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = to_float(BFloat16{in[i]});
}

void halves_from_floats(const float* in, uint16_t* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = from_float<Float16>(in[i]).bits;
}

void bfloats_from_floats(const float* in, uint16_t* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = from_float<BFloat16>(in[i]).bits;
}

// sum of softmax(scores) * values, taken in `tile` scores at a time.
float online_attention(const float* scores, const float* values, int64_t n, int64_t tile) {
  OnlineSoftmax<ScalarMath> softmax;
  softmax.reset();
  float out = 0.0f;
  for (int64_t begin = 0; begin < n; begin += tile) {
    const int64_t end = begin + tile < n ? begin + tile : n;
    float maximum = minus_infinity();
    for (int64_t i = begin; i < end; ++i) maximum = scores[i] > maximum ? scores[i] : maximum;
    out *= softmax.raise(maximum);
    float sum = 0.0f;
    for (int64_t i = begin; i < end; ++i) {
      const float weight = ScalarMath::exp(scores[i] - softmax.origin());
      out += weight * values[i];
      sum += weight;
    }
    softmax.add(sum);
  }
  return softmax.normalise(out);
}
}
