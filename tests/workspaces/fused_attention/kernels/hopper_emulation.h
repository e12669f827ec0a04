// Runs the kernel for Hopper on the CPU: the machine that kernel.h is written against.
#pragma once

#include <cmath>
#include <cstring>
#include <utility>

#include "hopper_block.h"

namespace emulation {

struct Machine {
  static int thread() { return emulation::block.current; }
  static int warpgroup() { return emulation::block.current / kWarpgroup; }
  static int block() { return emulation::block.index; }
  static int blocks() { return emulation::block.count; }
  static uint32_t address(int offset) { return kBase + static_cast<uint32_t>(offset); }

  template <int kCount>
  static void shrink_registers() {}
  template <int kCount>
  static void grow_registers() {}

  static void init_barrier(int offset, int count) {
    emulation::block.barriers[offset / 8] = MemoryBarrier{true, count, count, 0, 0};
  }
  static void fence_barriers() {}
  static void sync_block() { sync_named(16, kThreads); }

  static void arrive(int offset) {
    MemoryBarrier& barrier = barrier_at(offset);
    if (--barrier.pending < 0) fail("too many arrivals at a barrier");
    ++emulation::block.progress;
    complete(barrier);
  }
  static void expect_bytes(int offset, int bytes) {
    barrier_at(offset).bytes += bytes;
    arrive(offset);
  }
  static void wait(int offset, uint32_t parity) {
    const MemoryBarrier& barrier = barrier_at(offset);
    wait_until([&] { return static_cast<uint32_t>(barrier.phases & 1) != parity; });
  }

  static void arrive_named(int id, int threads) {
    NamedBarrier& barrier = emulation::block.named[id];
    if (++barrier.arrived == threads) {
      barrier.arrived = 0;
      ++barrier.generation;
    }
    ++emulation::block.progress;
  }
  static void sync_named(int id, int threads) {
    NamedBarrier& barrier = emulation::block.named[id];
    const int64_t mine = barrier.generation;
    arrive_named(id, threads);
    wait_until([&] { return barrier.generation != mine; });
  }

  static void load_box(const fused_attention::hopper::TensorMap& map, int full, int target, int32_t column,
                       int32_t row, int32_t head, int32_t batch) {
    std::memset(&emulation::block.shared[target], 0xff, kTileKeys * kRowBytes);
    const Load load{map, full, target, {column, row, head, batch}, delay()};
    if (emulation::block.late) {
      emulation::block.loads.push_back(load);
    } else {
      land(load);
    }
  }
  static void store_tile(int offset, fused_attention::KeyTile tile) {
    std::memcpy(&emulation::block.shared[offset], &tile, 8);
  }
  static fused_attention::KeyTile load_tile(int offset) {
    fused_attention::KeyTile tile;
    std::memcpy(&tile, &emulation::block.shared[offset], 8);
    return tile;
  }
  static void clear_16_bytes(int offset) { self().cleared.push_back(offset); }
  static void fence_shared() {
    for (const int offset : self().cleared) std::memset(&emulation::block.shared[offset], 0, 16);
    self().cleared.clear();
  }

  static void begin_products() {}
  template <class T>
  static void multiply_shared(uint64_t left, uint64_t right, float (&out)[kTileKeys / 2], bool accumulate) {
    self().queued.push_back(Product{left, right, nullptr, out, kTileKeys, accumulate, false, converter(T())});
  }
  template <class T, int kCount>
  static void multiply_registers(const uint32_t (&left)[4], uint64_t right, float (&out)[kCount]) {
    self().queued.push_back(Product{0, right, left, out, 2 * kCount, true, true, converter(T())});
  }
  static void commit_products() {
    self().committed.push_back(std::move(self().queued));
    self().queued.clear();
    if (!emulation::block.late) do_products_now();
  }
  template <int kRemaining>
  static void wait_products() {
    if (emulation::block.late) wait_for_products(kRemaining);
  }
  template <int kCount>
  static void fence_operand(float (&)[kCount]) {}

  template <class Value>
  static Value shuffle_xor(Value value, int distance) {
    Thread& me = self();
    const int64_t mine = me.exchanges++;
    std::memcpy(&me.sent[mine % 2], &value, 4);
    const int first = emulation::block.current / 32 * 32;
    wait_until([&] {
      bool all = true;
      for (int lane = 0; all && lane < 32; ++lane) all = emulation::block.threads[first + lane].exchanges > mine;
      return all;
    });
    std::memcpy(&value, &emulation::block.threads[emulation::block.current ^ distance].sent[mine % 2], 4);
    return value;
  }

  static float maximum(float a, float b) { return std::fmax(a, b); }
  static float exp2(float x) { return std::exp2(x); }
  static float multiply_add(float a, float b, float c) { return std::fma(a, b, c); }
  template <class T>
  static uint32_t pack(float low, float high) {
    return fused_attention::from_float<T>(low).bits |
           static_cast<uint32_t>(fused_attention::from_float<T>(high).bits) << 16;
  }
  template <class T>
  static void store_16_bytes(T* target, const uint32_t (&words)[4]) {
    std::memcpy(target, words, 16);
  }

 private:
  using Converter = float (*)(uint16_t);
  static Converter converter(fused_attention::Float16) { return half_to_float; }
  static Converter converter(fused_attention::BFloat16) { return bfloat_to_float; }
};

}  // namespace emulation
