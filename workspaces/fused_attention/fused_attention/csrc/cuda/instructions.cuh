// PTX instructions that C++ cannot express, one function each. Shared memory is addressed by its 32-bit offset.
// Sources: the PTX ISA's sections on mma, ldmatrix, cp.async and ex2.
#pragma once

#include "../numeric.h"

namespace fused_attention {

__device__ inline uint32_t shared_offset(const void* pointer) {
  uint32_t offset;
  asm("{ .reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide; }" : "=r"(offset) : "l"(pointer));
  return offset;
}

// blockIdx.x, read anew in each call.
__device__ inline unsigned block_index() {
  unsigned index;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(index));
  return index;
}

// Four words, from or to an offset that is a multiple of 16.
struct Words4 {
  uint32_t x[4];
};

__device__ inline void store_shared(uint32_t offset, const Words4& w) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(offset), "r"(w.x[0]), "r"(w.x[1]), "r"(w.x[2]),
               "r"(w.x[3])
               : "memory");
}

__device__ inline void store_shared(uint32_t offset, uint32_t word) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(offset), "r"(word) : "memory");
}

__device__ inline Words4 load_shared(uint32_t offset) {
  Words4 w;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(w.x[0]), "=r"(w.x[1]), "=r"(w.x[2]), "=r"(w.x[3])
               : "r"(offset)
               : "memory");
  return w;
}

__device__ inline uint32_t load_shared_word(uint32_t offset) {
  uint32_t word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(offset) : "memory");
  return word;
}

__device__ inline void load_shared_pair(uint32_t offset, uint32_t* words) {
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "r"(offset) : "memory");
}

__device__ inline Words4 load_global(const void* pointer) {
  const uint4 w = *static_cast<const uint4*>(pointer);
  return Words4{{w.x, w.y, w.z, w.w}};
}

__device__ inline void store_global(void* pointer, const Words4& w) {
  *static_cast<uint4*>(pointer) = make_uint4(w.x[0], w.x[1], w.x[2], w.x[3]);
}

// Starts an asynchronous copy of 16 bytes from device to shared memory; writes zeros if `inside` is false.
__device__ inline void copy_async(uint32_t offset, const void* pointer, bool inside) {
#if __CUDA_ARCH__ >= 800
  const uint32_t bytes = inside ? 16 : 0;
  asm volatile("{ .reg .u64 wide; cvta.to.global.u64 wide, %1; cp.async.cg.shared.global [%0], [wide], 16, %2; }" ::"r"(
                   offset),
               "l"(pointer), "r"(bytes)
               : "memory");
#else
  store_shared(offset, inside ? load_global(pointer) : Words4{{0, 0, 0, 0}});
#endif
}

// Waits until this thread's copies have arrived.
__device__ inline void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// 2^x with an error of about 2^-22 of it; 0 for minus infinity.
__device__ inline float exp2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

template <class T>
__device__ uint32_t pack(float low, float high);

template <>
__device__ inline uint32_t pack<Float16>(float low, float high) {
  uint32_t both;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
#else
  asm("{ .reg .b16 l, h; cvt.rn.f16.f32 l, %1; cvt.rn.f16.f32 h, %2; mov.b32 %0, {l, h}; }"
      : "=r"(both)
      : "f"(low), "f"(high));
#endif
  return both;
}

template <>
__device__ inline uint32_t pack<BFloat16>(float low, float high) {
#if __CUDA_ARCH__ >= 800
  uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
#else
  return from_float<BFloat16>(low).bits | static_cast<uint32_t>(from_float<BFloat16>(high).bits) << 16;
#endif
}

// Four 8x8 matrices of 16-bit elements; lane l gives the offset of row l % 8 of matrix l / 8. Matrix i's row l / 4,
// elements 2 * (l % 4) and one more, come to word i of lane l.
__device__ inline void load_matrices(uint32_t offset, uint32_t* words) {
#if __CUDA_ARCH__ >= 750
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(offset)
               : "memory");
#endif
}

// The same of the transposed matrices.
__device__ inline void load_matrices_transposed(uint32_t offset, uint32_t* words) {
#if __CUDA_ARCH__ >= 750
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(offset)
               : "memory");
#endif
}

// c += a * b of 16x16 and 16x8.
template <class T>
__device__ void mma_16816(float* c, const uint32_t* a, const uint32_t* b);

template <>
__device__ inline void mma_16816<Float16>(float* c, const uint32_t* a, const uint32_t* b) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

template <>
__device__ inline void mma_16816<BFloat16>(float* c, const uint32_t* a, const uint32_t* b) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// c += a * b of 16x8 and 8x8, binary16.
__device__ inline void mma_1688(float* c, const uint32_t* a, uint32_t b) {
#if __CUDA_ARCH__ >= 750
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(b));
#endif
}

// The bits of x rounded to TF32: 8 bits of exponent, 10 of mantissa.
__device__ inline uint32_t to_tf32(float x) {
  uint32_t bits = 0;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
#endif
  return bits;
}

// c += a * b of 16x8 and 8x8, TF32.
__device__ inline void mma_1688_tf32(float* c, const uint32_t* a, const uint32_t* b) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// In each of a warp's four quad-pairs, c += a * b of 8x4 and 4x8, binary16; b by columns or by rows.
__device__ inline void mma_884_columns(float* c, const uint32_t* a, const uint32_t* b) {
#if __CUDA_ARCH__ >= 700
  asm("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, {%10, %11}, "
      "{%0, %1, %2, %3, %4, %5, %6, %7};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7])
      : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]));
#endif
}

__device__ inline void mma_884_rows(float* c, const uint32_t* a, const uint32_t* b) {
#if __CUDA_ARCH__ >= 700
  asm("mma.sync.aligned.m8n8k4.row.row.f32.f16.f16.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, {%10, %11}, "
      "{%0, %1, %2, %3, %4, %5, %6, %7};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7])
      : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]));
#endif
}

}  // namespace fused_attention
