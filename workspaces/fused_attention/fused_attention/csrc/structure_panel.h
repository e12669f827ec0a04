// Operands of a structured mask over a panel of rows and keys that fits the L1 cache: 64 keys a word.
#pragma once

#include <algorithm>

#include "structure.h"

namespace fused_attention {

constexpr int kPanelWords = 512;
constexpr int kMaxBitPanelRows = 64;

// Rows [row, row + rows) by keys [key, key + limit); rows * words <= kPanelWords.
struct BitPanel {
  int64_t batch, row, key;
  int rows, words;
  int limit;  // keys that exist: words * 64, or less in the last panel
};

inline uint64_t bits_below(int64_t n) {
  return n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
}

// The bits [begin, end) of word number `word`; both ends may lie outside of it.
inline uint64_t bits_between(int begin, int end, int word) {
  const int first = std::min(std::max(begin - 64 * word, 0), 64), last = std::min(std::max(end - 64 * word, 0), 64);
  return bits_below(last) & ~bits_below(first);
}

// The keys [begin, end) of a panel, counted from its first; 0 and 0 if there are none.
struct Run {
  int begin, end;

  bool empty() const { return begin == end; }
};

inline Run run_of(const BitPanel& p, int64_t begin, int64_t end) {
  const int64_t limit = p.limit;
  begin = std::min(std::max(begin - p.key, int64_t{0}), limit);
  end = std::min(std::max(end - p.key, int64_t{0}), limit);
  return begin < end ? Run{static_cast<int>(begin), static_cast<int>(end)} : Run{0, 0};
}

inline void fill(uint64_t* line, int words, Run run) {
  const int first = run.begin / 64, last = (run.end + 63) / 64;
  int w = 0;
  for (; w < first; ++w) line[w] = 0;
  for (; w < last; ++w) line[w] = ~uint64_t{0};
  for (; w < words; ++w) line[w] = 0;
  if (run.empty()) return;
  line[first] &= ~bits_below(run.begin % 64);
  line[last - 1] &= bits_below(run.end - 64 * (last - 1));
}

inline void set(uint64_t* line, Run run) {
  if (run.empty()) return;
  const int first = run.begin / 64, last = (run.end - 1) / 64;
  line[first] |= bits_between(run.begin, run.end, first);
  for (int w = first + 1; w <= last; ++w) line[w] |= bits_between(run.begin, run.end, w);
}

// An operand over a panel. Bits beyond the panel's limit are zero.
struct Operand {
  enum Form { kRuns, kOneLine, kBits } form;
  uint64_t* bits;  // the rows' words, in memory of this entry of the stack
  int64_t stride;  // of `bits`, in words
  uint64_t line[kPanelWords];  // kOneLine: the same for every row
  int64_t line_maker = -1, line_key;  // the instruction and the first key of `line`, which other panels reuse
  Run runs[kMaxBitPanelRows];

  const uint64_t* row(int r) const { return form == kOneLine ? line : bits + r * stride; }

  // Switches to kOneLine. Returns whether the line must be computed: it is kept from the panel before.
  bool start_line(int64_t maker, int64_t key) {
    const bool kept = line_maker == maker && line_key == key;
    form = kOneLine;
    line_maker = maker;
    line_key = key;
    return !kept;
  }
};

inline void all_rows(Operand* out, const BitPanel& p, Run run) {
  out->form = Operand::kRuns;
  std::fill(out->runs, out->runs + p.rows, run);
}

// get(row, &begin, &end) returns the keys of a row.
template <class Get>
void each_row(Operand* out, const BitPanel& p, Get get) {
  out->form = Operand::kRuns;
  for (int r = 0; r < p.rows; ++r) {
    int64_t begin, end;
    get(p.row + r, &begin, &end);
    out->runs[r] = run_of(p, begin, end);
  }
}

// choose(row) returns whether the row has all keys, or none.
template <class Choose>
void chosen_rows(Operand* out, const BitPanel& p, Choose choose) {
  out->form = Operand::kRuns;
  for (int r = 0; r < p.rows; ++r) out->runs[r] = Run{0, choose(p.row + r) ? p.limit : 0};
}

// A word with bit 0 and every step-th bit after it.
inline uint64_t every(int64_t step) {
  uint64_t bits = 1;
  for (int64_t n = step; n < 64; n *= 2) bits |= bits << n;
  return bits;
}

// Computes the first row word by word. The next `step` - 1 rows are the row before, shifted by one key; later ones
// repeat.
inline void residues(Operand* out, const BitPanel& p, int64_t step, int64_t offset) {
  out->form = Operand::kBits;
  const uint64_t pattern = every(step);
  const int64_t advance = 64 % step;
  // The first key of the residue class, counted from the panel's (or the word's) first key.
  int64_t first = positive_remainder(p.row + offset - p.key, step), in_word = first;
  for (int w = 0; w < p.words; ++w) {
    out->bits[w] = in_word < 64 ? pattern << in_word : 0;
    in_word -= advance;
    in_word += in_word < 0 ? step : 0;
  }
  const uint64_t last = bits_below(p.limit - 64 * (p.words - 1));
  out->bits[p.words - 1] &= last;
  for (int r = 1; r < p.rows; ++r) {
    uint64_t* line = out->bits + r * out->stride;
    if (r >= step) {
      const uint64_t* same = line - step * out->stride;
      std::copy(same, same + p.words, line);
      continue;
    }
    const uint64_t* before = line - out->stride;
    first = first + 1 < step ? first + 1 : 0;
    line[0] = before[0] << 1 | static_cast<uint64_t>(first == 0);
    for (int w = 1; w < p.words; ++w) line[w] = before[w] << 1 | before[w - 1] >> 63;
    line[p.words - 1] &= last;
  }
}

inline void key_residues(Operand* out, const BitPanel& p, int64_t step, int64_t begin, int64_t end) {
  std::fill(out->line, out->line + p.words, uint64_t{0});
  begin = std::min(std::max(begin, int64_t{0}), step);
  end = std::min(end, step);
  if (begin >= end) return;
  for (int64_t key = p.key / step * step; key < p.key + p.limit; key += step) {
    set(out->line, run_of(p, key + begin, key + end));
  }
}

inline void key_set(Operand* out, const BitPanel& p, const int64_t* words, int64_t bits) {
  const int64_t room = std::min(bits - p.key, static_cast<int64_t>(p.limit));
  for (int w = 0; w < p.words; ++w) {
    const int64_t left = room - 64 * w;
    out->line[w] = left > 0 ? static_cast<uint64_t>(words[p.key / 64 + w]) & bits_below(left) : 0;
  }
}

// One row of a table of blocks: each run of set bits becomes a run of keys.
inline void block_row(uint64_t* line, const BitPanel& p, const int64_t* table, int64_t block, int64_t blocks) {
  std::fill(line, line + p.words, uint64_t{0});
  const int64_t last = std::min(blocks, (p.key + p.limit + block - 1) / block);
  for (int64_t w = p.key / block / 64; 64 * w < last; ++w) {
    uint64_t word = static_cast<uint64_t>(table[w]) & bits_below(last - 64 * w);
    while (word != 0) {
      const int begin = __builtin_ctzll(word);
      const uint64_t after = ~(word >> begin);
      const int end = after == 0 ? 64 : begin + __builtin_ctzll(after);
      set(line, run_of(p, (64 * w + begin) * block, (64 * w + end) * block));
      word &= ~bits_below(end);
    }
  }
}

inline void block_table(Operand* out, const BitPanel& p, const int64_t* table, int64_t block, int64_t blocks) {
  out->form = Operand::kBits;
  const int64_t table_stride = words_for(blocks);
  for (int r = 0; r < p.rows; ++r) {
    uint64_t* line = out->bits + r * out->stride;
    const int64_t row = p.row + r;
    if (r > 0 && row % block != 0) {
      std::copy(line - out->stride, line - out->stride + p.words, line);
    } else {
      block_row(line, p, table + row / block * table_stride, block, blocks);
    }
  }
}

}  // namespace fused_attention
