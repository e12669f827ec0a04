// Checks a structured mask's program before it runs: a caller passes it, so the tensor may hold anything.
#include <sstream>

#include "structure.h"

namespace fused_attention {

namespace {

const char* const kNames[] = {"all", "band", "residue", "key residue", "same block", "key range",
                              "row range", "key set", "row set", "key below", "row below", "row interval",
                              "block table", "and", "or", "not"};
constexpr int64_t kNumOps = sizeof(kNames) / sizeof(kNames[0]);

struct Lengths {
  int64_t batch, q_len, k_len;
};

bool is_step(int64_t x) {
  return x >= 1 && x <= kUnbounded;
}

bool is_distance(int64_t x) {
  return x >= -kUnbounded && x <= kUnbounded;
}

// Whether `first * second * third` words from `offset` on lie in `size`; no product can overflow.
bool fits(int64_t size, int64_t offset, int64_t first, int64_t second, int64_t third) {
  if (offset < 0 || offset > size) return false;
  int64_t room = size - offset;
  for (const int64_t factor : {first, second, third}) {
    if (factor == 0) return true;
    room /= factor;
  }
  return room >= 1;
}

// The error's text for an operand, or an empty string.
std::string check_operand(const MaskInstruction& in, int64_t size, const Lengths& lengths) {
  std::ostringstream error;
  const auto need_step = [&](int64_t step) {
    if (!is_step(step)) error << "has step " << step << "; allowed are 1 to 2**40";
    return is_step(step);
  };
  const auto need_table = [&](int64_t first, int64_t second, int64_t third) {
    if (!fits(size, in.a, first, second, third)) {
      error << "has a table at word " << in.a << " that does not lie in the structure's " << size << " words";
    }
  };
  const auto need_batch = [&](int64_t batch) {
    const bool right = batch == 1 || batch == lengths.batch;
    if (!right) {
      error << "is made for a batch of " << batch << ", and the call's is " << lengths.batch
            << "; a mask of lengths or documents must have as many, or one for all";
    }
    return right;
  };
  switch (static_cast<MaskOp>(in.op)) {
    case MaskOp::kBand:
      if (!is_distance(in.a) || !is_distance(in.b)) {
        error << "goes from " << in.a << " to " << in.b << "; allowed are -2**40 to 2**40";
      }
      break;
    case MaskOp::kResidue:
      if (need_step(in.a) && !is_distance(in.b)) error << "has offset " << in.b << "; allowed are -2**40 to 2**40";
      break;
    case MaskOp::kKeyResidue:
    case MaskOp::kSameBlock: need_step(in.a); break;
    case MaskOp::kKeySet:
    case MaskOp::kRowSet:
      if (in.b < 0) {
        error << "has " << in.b << " bits; it must have 0 or more";
      } else {
        need_table(in.b / 64 + (in.b % 64 != 0), 1, 1);
      }
      break;
    case MaskOp::kKeyBelow:
    case MaskOp::kRowBelow:
      if (need_batch(in.b)) need_table(in.b, 1, 1);
      break;
    case MaskOp::kRowInterval:
      if (in.c < 0) {
        error << "has " << in.c << " rows; it must have 0 or more";
      } else if (need_batch(in.b)) {
        need_table(2, in.b, in.c);
      }
      break;
    case MaskOp::kBlockTable: {
      if (!need_step(in.b)) break;
      const int64_t row_blocks = (lengths.q_len + in.b - 1) / in.b, key_blocks = (lengths.k_len + in.b - 1) / in.b;
      if (in.c < key_blocks) {
        error << "covers " << in.c << " blocks of " << in.b << " keys and k has " << lengths.k_len
              << " keys; it must cover all of them";
      } else {
        need_table(row_blocks, in.c / 64 + (in.c % 64 != 0), 1);
      }
      break;
    }
    default: break;
  }
  return error.str();
}

}  // namespace

std::string check_structure(const int64_t* words, int64_t size, int64_t batch, int64_t q_len, int64_t k_len) {
  std::ostringstream error;
  if (size < kStructureHeader || words[0] != kStructureVersion) {
    error << "structure is not a mask program of version " << kStructureVersion
          << "; pass what fused_attention.masks.Mask.lower returns";
    return error.str();
  }
  const Structure s{words, size};
  if (s.count() < 1 || s.count() > (size - kStructureHeader) / 4) {
    error << "structure says that it has " << s.count() << " instructions; its " << size << " words hold 1 to "
          << (size - kStructureHeader) / 4;
    return error.str();
  }
  int depth = 0;
  for (int64_t i = 0; i < s.count(); ++i) {
    const MaskInstruction in = s.instruction(i);
    if (in.op < 0 || in.op >= kNumOps) {
      error << "structure has operation " << in.op << " as instruction " << i << "; allowed are 0 to " << kNumOps - 1;
      return error.str();
    }
    const auto op = static_cast<MaskOp>(in.op);
    const int operands = op == MaskOp::kAnd || op == MaskOp::kOr ? 2 : op == MaskOp::kNot ? 1 : 0;
    const std::string wrong = operands == 0 ? check_operand(in, size, Lengths{batch, q_len, k_len}) : "";
    if (!wrong.empty()) {
      error << "structure's instruction " << i << " (" << kNames[in.op] << ") " << wrong;
      return error.str();
    }
    depth -= operands;
    if (depth < 0 || depth + 1 > kMaxStructureDepth) {
      error << "structure's instruction " << i << " (" << kNames[in.op] << ") finds " << depth + operands
            << " operands; it takes " << operands << ", and at most " << kMaxStructureDepth << " may wait";
      return error.str();
    }
    ++depth;
  }
  if (depth != 1) error << "structure leaves " << depth << " operands; it must leave one";
  return error.str();
}

}  // namespace fused_attention
