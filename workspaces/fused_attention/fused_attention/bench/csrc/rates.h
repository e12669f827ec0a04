// What a core can do at most: loops of nothing but multiply-adds or dot products, and of nothing but loads or copies.
#pragma once

#include <time.h>

#include <cstdint>
#include <cstring>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FUSED_ATTENTION_BENCH_X86 1
#include <cpuid.h>
#include <immintrin.h>
#if __GNUC__ >= 10
#define FUSED_ATTENTION_BENCH_BF16 1
#endif
#if __GNUC__ >= 11 && defined(__linux__)
#define FUSED_ATTENTION_BENCH_AMX 1
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace fused_attention_bench {

// Of the calling thread alone: what other programs take from the core does not count.
inline double thread_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// A loop of `rounds`, each of `flop` floating-point operations; it returns a number so that none is left out.
struct Loop {
  const char* isa;
  double flop;
  float (*run)(int64_t rounds, float one, float tiny);
};

constexpr int kChains = 12;  // independent sums: more than latency times units, and 12 + 2 fit 16 registers

typedef float Float4 __attribute__((vector_size(16)));

inline float fma_vector(int64_t rounds, float one, float tiny) {
  Float4 sums[kChains], x = {one, one, one, one}, y = {tiny, tiny, tiny, tiny};
  for (int i = 0; i < kChains; ++i) sums[i] = x * static_cast<float>(i);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = sums[i] * x + y;
  }
  float total = 0;
  for (int i = 0; i < kChains; ++i) total += sums[i][0] + sums[i][1] + sums[i][2] + sums[i][3];
  return total;
}

#ifdef FUSED_ATTENTION_BENCH_X86
__attribute__((target("avx2,fma"))) inline float fma_avx2(int64_t rounds, float one, float tiny) {
  __m256 sums[kChains];
  const __m256 x = _mm256_set1_ps(one), y = _mm256_set1_ps(tiny);
  for (int i = 0; i < kChains; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i));
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = _mm256_fmadd_ps(sums[i], x, y);
  }
  float total = 0;
  for (int i = 0; i < kChains; ++i) total += _mm256_cvtss_f32(sums[i]);
  return total;
}

__attribute__((target("avx512f"))) inline float fma_avx512(int64_t rounds, float one, float tiny) {
  __m512 sums[kChains];
  const __m512 x = _mm512_set1_ps(one), y = _mm512_set1_ps(tiny);
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_fmadd_ps(sums[i], x, y);
  }
  float total = 0;
  for (int i = 0; i < kChains; ++i) total += _mm512_cvtss_f32(sums[i]);
  return total;
}

#ifdef FUSED_ATTENTION_BENCH_BF16
__attribute__((target("avx512f,avx512bf16"))) inline float dot_bf16(int64_t rounds, float, float) {
  __m512 sums[kChains];
  int bits = 0x3f803f80;  // two ones
  asm volatile("" : "+r"(bits));
  const __m512bh x = (__m512bh)_mm512_set1_epi32(bits);
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_dpbf16_ps(sums[i], x, x);
  }
  float total = 0;
  for (int i = 0; i < kChains; ++i) total += _mm512_cvtss_f32(sums[i]);
  return total;
}
#endif

#ifdef FUSED_ATTENTION_BENCH_AMX
constexpr int kTileSums = 6;                    // and two factors: all eight tiles
constexpr double kTileFlop = 16 * 16 * 32 * 2;  // of one product of whole tiles

__attribute__((target("amx-tile,amx-bf16"))) inline float tiles_bf16(int64_t rounds, float, float) {
  struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } config = {};
  config.palette = 1;
  for (int tile = 0; tile < kTileSums + 2; ++tile) {
    config.row_bytes[tile] = 64;
    config.rows[tile] = 16;
  }
  asm volatile("" : : "m"(config));  // gcc 12 does not know that the next line reads it
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (int64_t round = 0; round < rounds; ++round) {
    _tile_dpbf16ps(0, 6, 7);
    _tile_dpbf16ps(1, 6, 7);
    _tile_dpbf16ps(2, 6, 7);
    _tile_dpbf16ps(3, 6, 7);
    _tile_dpbf16ps(4, 6, 7);
    _tile_dpbf16ps(5, 6, 7);
  }
  float sum[16 * 16];
  _tile_stored(0, sum, 64);
  asm volatile("" : "+m"(sum));
  _tile_release();
  return sum[0];
}

// Whether the processor has AMX with BF16 and Linux (5.16 and newer) grants this process its registers.
inline bool has_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool known = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 22 & 1) && (d >> 24 & 1);
  return known && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

// Leaf 7, subleaf 1, bit 5 of EAX; older compilers do not know the name.
inline bool has_bf16() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx512f") && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
}
#endif

// The widest multiply-adds of this machine.
inline Loop widest_fma() {
#ifdef FUSED_ATTENTION_BENCH_X86
  if (__builtin_cpu_supports("avx512f")) return {"avx512 fma", kChains * 16 * 2, fma_avx512};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {"avx2 fma", kChains * 8 * 2, fma_avx2};
#endif
  return {"128-bit multiply-add", kChains * 4 * 2, fma_vector};
}

// Floating-point operations a second of the calling thread.
inline double measure_loop(const Loop& loop, int64_t rounds, float* sink) {
  const double start = thread_seconds();
  *sink += loop.run(rounds, 1.0f, 1e-30f);
  return loop.flop * static_cast<double>(rounds) / (thread_seconds() - start);
}

// The fastest loop of this machine. bfloat16 may be faster in float32 than by its dot products: Emerald Rapids starts
// one 512-bit dot product every two cycles, but two multiply-adds every cycle.
inline Loop fastest_loop(bool bf16) {
  const Loop fma = widest_fma();
#ifdef FUSED_ATTENTION_BENCH_AMX
  if (bf16 && has_tiles()) return {"amx_bf16 tiles", kTileSums * kTileFlop, tiles_bf16};
#endif
#ifdef FUSED_ATTENTION_BENCH_BF16
  if (bf16 && has_bf16()) {
    const Loop dot = {"avx512_bf16 dot", kChains * 16 * 4, dot_bf16};
    float sink = 0;
    if (measure_loop(dot, 1000000, &sink) > measure_loop(fma, 1000000, &sink)) return dot;
  }
#endif
  (void)bf16;
  return fma;
}

// Bytes a second of the calling thread: read once, or read and written.
inline double measure_read(const void* data, int64_t bytes, float* sink) {
  typedef int64_t Long2 __attribute__((vector_size(16)));
  const Long2* at = static_cast<const Long2*>(data);
  Long2 sums[8] = {};
  const double start = thread_seconds();
  for (int64_t i = 0; i + 8 <= bytes / 16; i += 8) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) sums[j] ^= at[i + j];
  }
  const double seconds = thread_seconds() - start;
  for (int j = 0; j < 8; ++j) *sink += static_cast<float>(sums[j][0] & 1);
  return static_cast<double>(bytes) / seconds;
}

inline double measure_copy(void* to, const void* from, int64_t bytes) {
  const double start = thread_seconds();
  std::memcpy(to, from, static_cast<size_t>(bytes));
  return 2 * static_cast<double>(bytes) / (thread_seconds() - start);
}

}  // namespace fused_attention_bench
