#include "structure.h"

namespace fused_attention {

void evaluate_rows(const Structure& s, int64_t batch, int64_t row, int64_t rows, int64_t k_len, bool with_residues,
                   uint64_t* words) {
  const int64_t width = words_for(k_len);
  for (int64_t i = 0; i < rows; ++i) {
    uint64_t* line = words + i * width;
    for (int64_t w = 0; w < width; ++w) line[w] = 0;
    for (int64_t key = 0; key < k_len; ++key) {
      const uint64_t bit = attends(s, batch, row + i, key, with_residues);
      line[key / 64] |= bit << (key % 64);
    }
  }
}

}  // namespace fused_attention
