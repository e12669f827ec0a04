// Moves rows between the tensors and the kernel's tables of 32-bit words.
#pragma once

#include "gemm.h"

namespace fused_attention {
namespace FA_ISA {

// Rows are too far apart for the hardware prefetcher, so later rows are prefetched here.
constexpr int kRowsAhead = 16;

// Into L2: the tables fill L1. Measured: with prefetches into L1, windows take up to 1.4 times as long.
template <int kForWriting, class T>
FA_HOST_DEVICE void prefetch_row(const T* row, int64_t count) {
  for (int64_t d = 0; d < count; d += 64 / sizeof(T)) __builtin_prefetch(row + d, kForWriting, 2);
}

FA_HOST_DEVICE void copy_words(const float* words, int64_t count, float* out) {
  int64_t w = 0;
  for (; w + kLanes <= count; w += kLanes) store(out + w, load(words + w));
  for (; w < count; ++w) out[w] = words[w];
}

// A row of `count` elements as floats, zero up to `width`.
template <class T>
FA_HOST_DEVICE void widen_row(const T* row, int64_t count, int64_t width, float* out) {
  int64_t d = 0;
  for (; d + kLanes <= count; d += kLanes) store(out + d, load_floats(row + d));
  for (; d < count; ++d) out[d] = to_float(row[d]);
  for (; d < width; ++d) out[d] = 0.0f;
}

// A row of floats, scaled, as `count` elements.
template <class T>
FA_HOST_DEVICE void narrow_row(const float* row, float scale, int64_t count, T* out) {
  const Vec scales = broadcast(scale);
  int64_t d = 0;
  for (; d + kLanes <= count; d += kLanes) store_floats(out + d, load(row + d) * scales);
  for (; d < count; ++d) out[d] = from_float<T>(row[d] * scale);
}

// The words of a key: floats, or pairs of bfloat16.
template <class Math, class T>
struct Words {
  static constexpr int64_t kPerWord = 1;
  static constexpr bool kInPlace = sizeof(T) == sizeof(float);  // rows in memory consist of words
  static int64_t count(int64_t head_dim) { return head_dim; }
  FA_HOST_DEVICE static void copy(const T* row, int64_t head_dim, float* out) {
    widen_row(row, head_dim, head_dim, out);
  }
};

#if FA_LEVEL >= 3
template <>
struct Words<DotMath, BFloat16> {
  static constexpr int64_t kPerWord = 2;
  static constexpr bool kInPlace = true;  // where their number is even
  static int64_t count(int64_t head_dim) { return (head_dim + 1) / 2; }
  FA_HOST_DEVICE static void copy(const BFloat16* row, int64_t head_dim, float* out) {
    if (head_dim % 2) out[head_dim / 2] = 0.0f;
    int64_t d = 0;
    for (; d + 2 * kLanes <= head_dim; d += 2 * kLanes) {
      Vec words;
      memcpy(&words, row + d, sizeof words);
      store(out + d / 2, words);
    }
    if (d < head_dim) memcpy(out + d / 2, row + d, (head_dim - d) * sizeof *row);
  }
};
#endif

// Sixteen rows of words to [word][16 of `pitch`]; floats may be scaled on the way.
template <bool kScaled>
FA_HOST_DEVICE void transpose16(const float* const* rows, int64_t words, float scale, float* out, int64_t pitch) {
  int64_t first = 0;
#if FA_LEVEL >= 2
  for (; first + 16 <= words; first += 16) {
    const auto put = [&](int64_t word, Vec x) {
      store(out + (first + word) * pitch, kScaled ? x * broadcast(scale) : x);
    };
    __m512 a[16], b[16];
    for (int i = 0; i < 16; ++i) a[i] = _mm512_loadu_ps(rows[i] + first);
    for (int i = 0; i < 16; i += 2) {
      b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
      b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
      a[i] = _mm512_shuffle_ps(b[i], b[i + 2], 0x44);
      a[i + 1] = _mm512_shuffle_ps(b[i], b[i + 2], 0xee);
      a[i + 2] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0x44);
      a[i + 3] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    // Here 128-bit lane l of a[4 * g + j] holds column 4 * l + j of rows 4 * g to 4 * g + 3.
    for (int j = 0; j < 4; ++j) {
      const __m512 low01 = _mm512_shuffle_f32x4(a[j], a[4 + j], 0x44), high01 = _mm512_shuffle_f32x4(a[j], a[4 + j], 0xee);
      const __m512 low23 = _mm512_shuffle_f32x4(a[8 + j], a[12 + j], 0x44);
      const __m512 high23 = _mm512_shuffle_f32x4(a[8 + j], a[12 + j], 0xee);
      put(j, _mm512_shuffle_f32x4(low01, low23, 0x88));
      put(4 + j, _mm512_shuffle_f32x4(low01, low23, 0xdd));
      put(8 + j, _mm512_shuffle_f32x4(high01, high23, 0x88));
      put(12 + j, _mm512_shuffle_f32x4(high01, high23, 0xdd));
    }
  }
#elif FA_LEVEL == 1
  for (; first + 8 <= words; first += 8) {
    for (int half = 0; half < 16; half += 8) {
      const auto put = [&](int64_t word, Vec x) {
        store(out + (first + word) * pitch + half, kScaled ? x * broadcast(scale) : x);
      };
      __m256 a[8], b[8];
      for (int i = 0; i < 8; ++i) a[i] = _mm256_loadu_ps(rows[half + i] + first);
      for (int i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
      }
      for (int i = 0; i < 8; i += 4) {
        a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
      }
      // Here 128-bit lane l of a[4 * g + j] holds column 4 * l + j of rows 4 * g to 4 * g + 3.
      for (int j = 0; j < 4; ++j) {
        put(j, _mm256_permute2f128_ps(a[j], a[4 + j], 0x20));
        put(4 + j, _mm256_permute2f128_ps(a[j], a[4 + j], 0x31));
      }
    }
  }
#endif
  for (int i = 0; i < 16; ++i) {
    for (int64_t word = first; word < words; ++word) {
      out[word * pitch + i] = kScaled ? rows[i][word] * scale : rows[i][word];
    }
  }
}

// Values of up to kPair keys (null: zeros) as words: floats, or bfloat16 of two keys side by side.
template <class Math, class T>
struct Values {
  FA_HOST_DEVICE static void copy(const T* const* rows, int64_t head_dim, int64_t width, float* out) {
    if (rows[0]) {
      widen_row(rows[0], head_dim, width, out);
    } else {
      memset(out, 0, width * sizeof *out);
    }
  }
};

#if FA_LEVEL >= 3
template <>
struct Values<DotMath, BFloat16> {
  FA_HOST_DEVICE static void copy(const BFloat16* const* rows, int64_t head_dim, int64_t width, float* out) {
    int64_t d = 0;
    for (; d < width; d += 16) {
      const __mmask16 inside = d + 16 <= head_dim ? 0xffff : (1u << (head_dim - d)) - 1;
      __m512i half[2];
      for (int i = 0; i < 2; ++i) {
        half[i] = rows[i] ? _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(inside, rows[i] + d)) : _mm512_setzero_si512();
      }
      _mm512_storeu_si512(out + d, _mm512_or_si512(half[0], _mm512_slli_epi32(half[1], 16)));
    }
  }
};
#endif

// One row of words for kPair keys, out of rows that hold kPair consecutive keys each; -1: a key of zeros.
template <int kPair>
FA_HOST_DEVICE void gather_values(const float* values, int64_t stride, const int32_t* keys, int64_t width, float* out) {
  if (kPair == 1) {
    if (keys[0] < 0) {
      memset(out, 0, width * sizeof *out);
    } else {
      copy_words(values + keys[0] * stride, width, out);
    }
    return;
  }
  const float* source[2];
  int32_t shift[2], keep[2];  // the shift that moves a key's half into the low one, and a mask that is zero for no key
  for (int i = 0; i < 2; ++i) {
    source[i] = values + (keys[i] < 0 ? 0 : keys[i] / 2 * stride);
    shift[i] = keys[i] % 2 ? 16 : 0;
    keep[i] = keys[i] < 0 ? 0 : 0xffff;
  }
  using Words = uint32_t __attribute__((vector_size(FA_VECTOR_BYTES)));
  for (int64_t d = 0; d < width; d += kLanes) {
    const Words low = ((Words)load(source[0] + d) >> shift[0]) & static_cast<uint32_t>(keep[0]);
    const Words high = ((Words)load(source[1] + d) >> shift[1]) & static_cast<uint32_t>(keep[1]);
    store(out + d, (Vec)(low | (high << 16)));
  }
}

}  // namespace FA_ISA
}  // namespace fused_attention
