// The machine of kernel.h on a GPU: CUTLASS's wrappers of Hopper's instructions.
#pragma once

#include <cutlass/version.h>

// Older ones name the instructions differently. Compiled with 4.2.
#if CUTLASS_MAJOR < 4
#error "the kernel for Hopper needs CUTLASS 4 or newer: pip install nvidia-cutlass, or set CUTLASS_HOME"
#endif

#include <cute/arch/copy_sm90_desc.hpp>
#include <cute/arch/copy_sm90_tma.hpp>
#include <cute/arch/mma_sm90_gmma.hpp>
#include <cutlass/arch/barrier.h>
#include <cutlass/arch/reg_reconfig.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <utility>

#include "../../numeric.h"
#include "../tile_view.h"
#include "layout.h"

namespace fused_attention {
namespace hopper {

namespace gmma = cute::SM90::GMMA;

// The wgmma of a storage type: scores of 128 keys from shared memory, and weights times D columns of values.
template <class T, int kColumns>
struct Instructions;

template <>
struct Instructions<BFloat16, 128> {
  using Shared = gmma::MMA_64x128x16_F32BF16BF16_SS<gmma::Major::K, gmma::Major::K>;
  using Registers = gmma::MMA_64x128x16_F32BF16BF16_RS<gmma::Major::K, gmma::Major::MN>;
};

template <>
struct Instructions<BFloat16, 64> {
  using Registers = gmma::MMA_64x64x16_F32BF16BF16_RS<gmma::Major::K, gmma::Major::MN>;
};

template <>
struct Instructions<Float16, 128> {
  using Shared = gmma::MMA_64x128x16_F32F16F16_SS<gmma::Major::K, gmma::Major::K>;
  using Registers = gmma::MMA_64x128x16_F32F16F16_RS<gmma::Major::K, gmma::Major::MN>;
};

template <>
struct Instructions<Float16, 64> {
  using Registers = gmma::MMA_64x64x16_F32F16F16_RS<gmma::Major::K, gmma::Major::MN>;
};

extern __shared__ __align__(1024) char shared_memory[];

struct Machine {
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  // Tells the compiler that it is the same in all threads of a warp.
  __device__ static int warpgroup() { return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / kWarpgroup, 0); }
  __device__ static int block() { return static_cast<int>(blockIdx.x); }
  __device__ static int blocks() { return static_cast<int>(gridDim.x); }
  __device__ static uint32_t address(int offset) { return cute::cast_smem_ptr_to_uint(shared_memory) + offset; }

  template <int kCount>
  __device__ static void shrink_registers() {
    cutlass::arch::warpgroup_reg_dealloc<kCount>();
  }
  template <int kCount>
  __device__ static void grow_registers() {
    cutlass::arch::warpgroup_reg_alloc<kCount>();
  }

  __device__ static void init_barrier(int offset, int count) {
    cutlass::arch::ClusterBarrier::init(barrier(offset), count);
  }
  __device__ static void fence_barriers() { cutlass::arch::fence_barrier_init(); }
  __device__ static void sync_block() { __syncthreads(); }
  __device__ static void arrive(int offset) { cutlass::arch::ClusterBarrier::arrive(barrier(offset)); }
  __device__ static void expect_bytes(int offset, int bytes) {
    cutlass::arch::ClusterTransactionBarrier::arrive_and_expect_tx(barrier(offset), bytes);
  }
  __device__ static void wait(int offset, uint32_t parity) {
    cutlass::arch::ClusterBarrier::wait(barrier(offset), parity);
  }
  __device__ static void arrive_named(int id, int threads) { cutlass::arch::NamedBarrier::arrive(threads, id); }
  __device__ static void sync_named(int id, int threads) { cutlass::arch::NamedBarrier::sync(threads, id); }

  __device__ static void load_box(const CUtensorMap& map, int full, int target, int32_t column, int32_t row,
                                  int32_t head, int32_t batch) {
    cute::SM90_TMA_LOAD_4D::copy(&map, barrier(full), static_cast<uint64_t>(cute::TMA::CacheHintSm90::EVICT_NORMAL),
                                 shared_memory + target, column, row, head, batch);
  }
  // In assembly, like everything below: the compiler may move plain accesses across the barriers around them.
  __device__ static void store_tile(int offset, KeyTile tile) {
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(address(offset)), "r"(tile.index), "r"(tile.bits) : "memory");
  }
  __device__ static KeyTile load_tile(int offset) {
    KeyTile tile;
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
                 : "=r"(tile.index), "=r"(tile.bits)
                 : "r"(address(offset))
                 : "memory");
    return tile;
  }
  __device__ static void clear_16_bytes(int offset) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(address(offset)), "r"(0) : "memory");
  }
  // Ordinary writes to shared memory become visible to wgmma and TMA.
  __device__ static void fence_shared() { cutlass::arch::fence_view_async_shared(); }

  __device__ static void begin_products() { cute::warpgroup_arrive(); }
  template <class T>
  __device__ static void multiply_shared(uint64_t left, uint64_t right, float (&out)[kTileKeys / 2], bool accumulate) {
    const auto scale = accumulate ? gmma::ScaleOut::One : gmma::ScaleOut::Zero;
    multiply_shared<typename Instructions<T, kTileKeys>::Shared>(left, right, out, scale,
                                                                 std::make_index_sequence<kTileKeys / 2>());
  }
  template <class T, int kCount>
  __device__ static void multiply_registers(const uint32_t (&left)[4], uint64_t right, float (&out)[kCount]) {
    multiply_registers<typename Instructions<T, 2 * kCount>::Registers>(left, right, out,
                                                                        std::make_index_sequence<kCount>());
  }
  __device__ static void commit_products() { cute::warpgroup_commit_batch(); }
  template <int kRemaining>
  __device__ static void wait_products() {
    cute::warpgroup_wait<kRemaining>();
  }
  // Keeps the compiler from moving uses of registers that asynchronous products write.
  template <int kCount>
  __device__ static void fence_operand(float (&registers)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) cute::warpgroup_fence_operand(registers[i]);
  }

  template <class Value>
  __device__ static Value shuffle_xor(Value value, int distance) {
    return __shfl_xor_sync(0xffffffffu, value, distance);
  }
  __device__ static float maximum(float a, float b) { return fmaxf(a, b); }
  __device__ static float exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  __device__ static float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }

  template <class T>
  __device__ static uint32_t pack(float low, float high) {
    return pack(T(), low, high);
  }
  template <class T>
  __device__ static void store_16_bytes(T* target, const uint32_t (&words)[4]) {
    // In assembly: for a uint4 in separate registers the compiler makes four stores.
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(target), "r"(words[0]), "r"(words[1]), "r"(words[2]),
                 "r"(words[3])
                 : "memory");
  }

 private:
  __device__ static uint64_t* barrier(int offset) { return reinterpret_cast<uint64_t*>(shared_memory + offset); }

  __device__ static uint32_t pack(BFloat16, float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const uint32_t&>(pair);
  }
  __device__ static uint32_t pack(Float16, float low, float high) {
    const __half2 pair = __floats2half2_rn(low, high);
    return reinterpret_cast<const uint32_t&>(pair);
  }

  template <class Instruction, size_t... kIndex>
  __device__ static void multiply_shared(uint64_t left, uint64_t right, float (&out)[sizeof...(kIndex)],
                                         gmma::ScaleOut scale, std::index_sequence<kIndex...>) {
    Instruction::fma(left, right, out[kIndex]..., scale);
  }
  template <class Instruction, size_t... kIndex>
  __device__ static void multiply_registers(const uint32_t (&left)[4], uint64_t right,
                                            float (&out)[sizeof...(kIndex)], std::index_sequence<kIndex...>) {
    Instruction::fma(left[0], left[1], left[2], left[3], right, out[kIndex]...);
  }
};

}  // namespace hopper
}  // namespace fused_attention
