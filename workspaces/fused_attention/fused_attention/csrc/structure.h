// A mask as a small program over (query row, key). masks.py writes it; the kernels' schedules evaluate it.
//
// The program is one int64 tensor on the CPU: a header, instructions in postfix order, then data that they point to.
//   [kStructureVersion, number of instructions, (op, a, b, c) * instructions, data ...]
// Offsets in a, b or c count from the start of the tensor. Rows and keys count from the start of their sequence, in
// packed sequences too, where `batch` is the sequence.
#pragma once

#include <string>

#include "portable.h"

namespace fused_attention {

constexpr int64_t kStructureVersion = 1;
constexpr int64_t kStructureHeader = 2;
constexpr int kMaxStructureDepth = 16;  // of the stack of operands
constexpr int64_t kUnbounded = int64_t{1} << 40;  // the side of a band that has no limit

enum class MaskOp : int64_t {
  kAll = 0,
  kBand = 1,         // a <= key - row <= b
  kResidue = 2,      // (key - row - b) mod a == 0
  kKeyResidue = 3,   // b <= key mod a < c
  kSameBlock = 4,    // row / a == key / a
  kKeyRange = 5,     // a <= key < b
  kRowRange = 6,     // a <= row < b
  kKeySet = 7,       // bit `key` of the words at offset a; false from bit b on
  kRowSet = 8,       // bit `row` of the words at offset a; false from bit b on
  kKeyBelow = 9,     // key < word at offset a + (b == 1 ? 0 : batch); b batches
  kRowBelow = 10,    // row < word at offset a + (b == 1 ? 0 : batch); b batches
  kRowInterval = 11, // the two words at a + 2 * ((b == 1 ? 0 : batch) * c + row): first <= key < second; b batches, c
                     // rows; false from row c on
  kBlockTable = 12,  // bit key / b of the row / b-th run of (c + 63) / 64 words at offset a; c blocks of keys
  kAnd = 13,
  kOr = 14,
  kNot = 15,
};

struct MaskInstruction {
  int64_t op, a, b, c;
};

// A view of the tensor; null for a call without a structured mask.
struct Structure {
  const int64_t* words;
  int64_t size;

  bool exists() const { return words != nullptr; }
  int64_t count() const { return words[1]; }
  MaskInstruction instruction(int64_t i) const {
    const int64_t* at = words + kStructureHeader + 4 * i;
    return MaskInstruction{at[0], at[1], at[2], at[3]};
  }
};

inline int64_t positive_remainder(int64_t x, int64_t step) {
  const int64_t remainder = x % step;
  return remainder < 0 ? remainder + step : remainder;
}

inline bool bit_of(const int64_t* words, int64_t bit) {
  return (static_cast<uint64_t>(words[bit / 64]) >> (bit % 64)) & 1;
}

inline bool holds(const int64_t* words, const MaskInstruction& in, int64_t batch, int64_t row, int64_t key) {
  switch (static_cast<MaskOp>(in.op)) {
    case MaskOp::kBand: return in.a <= key - row && key - row <= in.b;
    case MaskOp::kResidue: return positive_remainder(key - row - in.b, in.a) == 0;
    case MaskOp::kKeyResidue: return in.b <= key % in.a && key % in.a < in.c;
    case MaskOp::kSameBlock: return row / in.a == key / in.a;
    case MaskOp::kKeyRange: return in.a <= key && key < in.b;
    case MaskOp::kRowRange: return in.a <= row && row < in.b;
    case MaskOp::kKeySet: return key < in.b && bit_of(words + in.a, key);
    case MaskOp::kRowSet: return row < in.b && bit_of(words + in.a, row);
    case MaskOp::kKeyBelow: return key < words[in.a + (in.b == 1 ? 0 : batch)];
    case MaskOp::kRowBelow: return row < words[in.a + (in.b == 1 ? 0 : batch)];
    case MaskOp::kRowInterval: {
      if (row >= in.c) return false;
      const int64_t* interval = words + in.a + 2 * ((in.b == 1 ? 0 : batch) * in.c + row);
      return interval[0] <= key && key < interval[1];
    }
    case MaskOp::kBlockTable: return bit_of(words + in.a + row / in.b * ((in.c + 63) / 64), key / in.b);
    default: return true;
  }
}

// The definition of every structured mask: whether `row` attends to `key`. Slow; kernels use evaluate_rows.
// With `with_residues` false, every kResidue is false: so a schedule splits a mask (see cpu/plan.h).
inline bool attends(const Structure& s, int64_t batch, int64_t row, int64_t key, bool with_residues = true) {
  bool stack[kMaxStructureDepth];
  int depth = 0;
  for (int64_t i = 0; i < s.count(); ++i) {
    const MaskInstruction in = s.instruction(i);
    switch (static_cast<MaskOp>(in.op)) {
      case MaskOp::kAnd: --depth; stack[depth - 1] = stack[depth - 1] && stack[depth]; break;
      case MaskOp::kOr: --depth; stack[depth - 1] = stack[depth - 1] || stack[depth]; break;
      case MaskOp::kNot: stack[depth - 1] = !stack[depth - 1]; break;
      case MaskOp::kResidue: stack[depth++] = with_residues && holds(s.words, in, batch, row, key); break;
      default: stack[depth++] = holds(s.words, in, batch, row, key); break;
    }
  }
  return stack[0];
}

// Whether batch elements may have different masks.
inline bool varies_by_batch(const Structure& s) {
  for (int64_t i = 0; i < s.count(); ++i) {
    const MaskInstruction in = s.instruction(i);
    switch (static_cast<MaskOp>(in.op)) {
      case MaskOp::kKeyBelow:
      case MaskOp::kRowBelow:
      case MaskOp::kRowInterval:
        if (in.b != 1) return true;
        break;
      default: break;
    }
  }
  return false;
}

constexpr int64_t words_for(int64_t bits) {
  return (bits + 63) / 64;
}

// Checks a program of `size` words for calls of these lengths. Returns the error's text, or an empty string.
// Everything else here trusts a checked program: its offsets stay inside, its tables cover every row and key, and no
// sum overflows. The time depends on the number of instructions alone.
std::string check_structure(const int64_t* words, int64_t size, int64_t batch, int64_t q_len, int64_t k_len);

// Bit key % 64 of words[i * words_for(k_len) + key / 64] becomes attends(row + i, key), for i < rows and key < k_len;
// bits beyond k_len become zero.
void evaluate_rows(const Structure& s, int64_t batch, int64_t row, int64_t rows, int64_t k_len, bool with_residues,
                   uint64_t* words);

}  // namespace fused_attention
