// Operators that show structured masks to users and tests: all elements, and the classes of tiles. The attention
// kernels do not use them.
#include <torch/library.h>

#include <algorithm>
#include <vector>

#include "compat.h"
#include "structure.h"

namespace fused_attention {

namespace {

enum TileClass : int8_t { kSkip = 0, kPartial = 1, kFull = 2 };

Structure checked(const at::Tensor& structure, int64_t batch, int64_t q_len, int64_t k_len) {
  TORCH_CHECK_TYPE(structure.device().is_cpu() && structure.scalar_type() == at::kLong && structure.dim() == 1 &&
                       structure.is_contiguous(),
                   "structure must be a contiguous torch.int64 tensor of one dimension on the CPU, as masks.Mask.lower "
                   "makes it");
  const auto* words = structure.data_ptr<int64_t>();
  const auto error = check_structure(words, structure.numel(), batch, q_len, k_len);
  TORCH_CHECK_VALUE(error.empty(), error);
  return Structure{words, structure.numel()};
}

void check_sizes(int64_t batch, int64_t q_len, int64_t k_len) {
  TORCH_CHECK_VALUE(batch >= 0 && q_len >= 0 && k_len >= 0, "batch, q_len and k_len are ", batch, ", ", q_len, " and ",
                    k_len, "; none may be negative");
}

// Bits to bytes of 0 or 1.
void spread(const uint64_t* words, int64_t count, uint8_t* bytes) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    // Byte j keeps bit j alone; then the set bit moves to the top of its byte.
    const uint64_t bits = (words[i / 64] >> (i % 64) & 0xff) * 0x0101010101010101u & 0x8040201008040201u;
    const uint64_t spread_bits = (bits + 0x7f7f7f7f7f7f7f7fu) >> 7 & 0x0101010101010101u;
    for (int j = 0; j < 8; ++j) bytes[i + j] = static_cast<uint8_t>(spread_bits >> (8 * j));
  }
  for (; i < count; ++i) bytes[i] = words[i / 64] >> (i % 64) & 1;
}

// `count` <= 64 bits of a line, starting at any bit.
uint64_t piece(const uint64_t* line, int64_t first, int64_t count) {
  const int64_t word = first / 64, shift = first % 64;
  uint64_t bits = line[word] >> shift;
  if (shift != 0 && shift + count > 64) bits |= line[word + 1] << (64 - shift);
  return count == 64 ? bits : bits & ((uint64_t{1} << count) - 1);
}

// Clears bits of the rows [row, row + height) where a mask of [batch, heads, q_len, k_len] is false.
void clear_where_false(const at::Tensor& mask, int64_t batch, int64_t head, int64_t row, int64_t height, int64_t k_len,
                       uint64_t* lines) {
  const auto* from = static_cast<const uint8_t*>(mask.data_ptr()) + batch * mask.stride(0) + head * mask.stride(1) +
                     row * mask.stride(2);
  const int64_t row_stride = mask.stride(2), key_stride = mask.stride(3);
  for (int64_t r = 0; r < height; ++r) {
    uint64_t* line = lines + r * words_for(k_len);
    for (int64_t key = 0; key < k_len; ++key) {
      if (from[r * row_stride + key * key_stride] == 0) line[key / 64] &= ~(uint64_t{1} << (key % 64));
    }
  }
}

at::Tensor mask_elements(const at::Tensor& structure, int64_t batch, int64_t q_len, int64_t k_len) {
  check_sizes(batch, q_len, k_len);
  const Structure s = checked(structure, batch, q_len, k_len);
  auto out = at::empty({batch, 1, q_len, k_len}, structure.options().dtype(at::kBool));
  auto* bytes = static_cast<uint8_t*>(out.data_ptr());
  constexpr int64_t kRows = 64;
  std::vector<uint64_t> words(kRows * words_for(k_len));
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t row = 0; row < q_len; row += kRows) {
      const int64_t rows = q_len - row < kRows ? q_len - row : kRows;
      evaluate_rows(s, b, row, rows, k_len, true, words.data());
      for (int64_t r = 0; r < rows; ++r) {
        spread(words.data() + r * words_for(k_len), k_len, bytes + ((b * q_len) + row + r) * k_len);
      }
    }
  }
  return out;
}

// Cuts rows of bits into tiles of rows x keys, in order.
class Tiler {
 public:
  Tiler(int64_t k_len, int64_t rows, int64_t keys, int8_t* classes)
      : k_len_(k_len), rows_(rows), keys_(keys), tile_words_(words_for(keys)), tile_(rows * tile_words_),
        classes_(classes) {}

  // A row of tiles; the last one of a mask has fewer rows.
  void add(const uint64_t* lines, int64_t height) {
    for (int64_t key = 0; key < k_len_; key += keys_) {
      const int64_t length = std::min(keys_, k_len_ - key), count = cut(lines, height, key, length);
      attended_ += count;
      *classes_++ = count == 0 ? kSkip : count == height * length ? kFull : kPartial;
      if (count != 0 && count != height * length) bits_.insert(bits_.end(), tile_.begin(), tile_.end());
    }
  }

  int64_t attended() const { return attended_; }

  at::Tensor bits() const {
    const int64_t partial = static_cast<int64_t>(bits_.size()) / (rows_ * tile_words_);
    auto out = at::empty({partial, rows_, tile_words_}, at::TensorOptions().device(at::kCPU).dtype(at::kLong));
    if (!bits_.empty()) memcpy(out.data_ptr<int64_t>(), bits_.data(), bits_.size() * sizeof(uint64_t));
    return out;
  }

 private:
  // Fills tile_ and counts its bits.
  int64_t cut(const uint64_t* lines, int64_t height, int64_t key, int64_t length) {
    int64_t count = 0;
    std::fill(tile_.begin(), tile_.end(), uint64_t{0});
    for (int64_t r = 0; r < height; ++r) {
      const uint64_t* line = lines + r * words_for(k_len_);
      for (int64_t w = 0; w < words_for(length); ++w) {
        const uint64_t word = piece(line, key + 64 * w, std::min<int64_t>(64, length - 64 * w));
        tile_[r * tile_words_ + w] = word;
        count += __builtin_popcountll(word);
      }
    }
    return count;
  }

  const int64_t k_len_, rows_, keys_, tile_words_;
  std::vector<uint64_t> tile_, bits_;
  int8_t* classes_;
  int64_t attended_ = 0;
};

std::tuple<at::Tensor, at::Tensor, int64_t> mask_tiles(const Optional<at::Tensor>& structure,
                                                       const Optional<at::Tensor>& mask, int64_t batch, int64_t heads,
                                                       int64_t q_len, int64_t k_len, int64_t rows, int64_t keys) {
  check_sizes(batch, q_len, k_len);
  TORCH_CHECK_VALUE(rows >= 1 && keys >= 1, "rows and keys are ", rows, " and ", keys, "; they must be 1 or more");
  const int64_t everything[] = {kStructureVersion, 1, static_cast<int64_t>(MaskOp::kAll), 0, 0, 0};
  const Structure s = structure.has_value() ? checked(*structure, batch, q_len, k_len) : Structure{everything, 6};
  at::Tensor expanded;
  if (mask.has_value()) {
    TORCH_CHECK_TYPE(mask->device().is_cpu() && mask->scalar_type() == at::kBool,
                     "mask must be a torch.bool tensor on the CPU");
    expanded = mask->expand({batch, heads, q_len, k_len});
  }
  const int64_t row_tiles = (q_len + rows - 1) / rows, key_tiles = (k_len + keys - 1) / keys;
  auto classes = at::empty({batch, heads, row_tiles, key_tiles}, at::TensorOptions().device(at::kCPU).dtype(at::kChar));
  Tiler tiler(k_len, rows, keys, classes.data_ptr<int8_t>());
  std::vector<uint64_t> lines(std::min(rows, q_len) * words_for(k_len));
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t row = 0; row < q_len; row += rows) {
        const int64_t height = std::min(rows, q_len - row);
        evaluate_rows(s, b, row, height, k_len, true, lines.data());
        if (expanded.defined()) clear_where_false(expanded, b, h, row, height, k_len, lines.data());
        tiler.add(lines.data(), height);
      }
    }
  }
  return std::make_tuple(classes, tiler.bits(), tiler.attended());
}

#if FUSED_ATTENTION_TORCH >= 200
at::Tensor mask_elements_meta(const at::Tensor& structure, int64_t batch, int64_t q_len, int64_t k_len) {
  return at::empty({batch, 1, q_len, k_len}, structure.options().dtype(at::kBool));
}
#endif

}  // namespace

}  // namespace fused_attention

TORCH_LIBRARY_FRAGMENT(fused_attention, m) {
  m.def("mask_elements(Tensor structure, int batch, int q_len, int k_len) -> Tensor");
  m.def(
      "mask_tiles(Tensor? structure, Tensor? mask, int batch, int heads, int q_len, int k_len, int rows, int keys) -> "
      "(Tensor classes, Tensor bits, int attended)");
}

TORCH_LIBRARY_IMPL(fused_attention, CPU, m) {
  m.impl("mask_elements", fused_attention::mask_elements);
  m.impl("mask_tiles", fused_attention::mask_tiles);
}

// A compiled function may need all elements of a mask. Older torch does not trace with meta tensors.
#if FUSED_ATTENTION_TORCH >= 200
TORCH_LIBRARY_IMPL(fused_attention, Meta, m) {
  m.impl("mask_elements", fused_attention::mask_elements_meta);
}
#endif
