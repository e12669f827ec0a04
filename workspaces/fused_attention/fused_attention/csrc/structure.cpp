// Structured masks, 64 keys at a time. A program runs once for a panel of rows and keys that fits the L1 cache.
// What most operands are, a run of keys in each row, stays two numbers a row until something else is mixed in.
#include "structure.h"

#include <algorithm>

namespace fused_attention {

namespace {

constexpr int kPanelWords = 512;
constexpr int kMaxPanelRows = 64;

// Rows [row, row + rows) by keys [key, key + limit); rows * words <= kPanelWords.
struct Panel {
  int64_t batch, row, key;
  int rows, words;
  int limit;  // keys that exist: words * 64, or less in the last panel
};

uint64_t bits_below(int64_t n) {
  return n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
}

// The bits [begin, end) of a word, which may be any numbers around it.
uint64_t bits_between(int begin, int end, int word) {
  const int first = std::min(std::max(begin - 64 * word, 0), 64), last = std::min(std::max(end - 64 * word, 0), 64);
  return bits_below(last) & ~bits_below(first);
}

// A run of keys, counted from the panel's first; 0 to 0 if it is empty.
struct Run {
  int begin, end;

  bool empty() const { return begin == end; }
};

Run run_of(const Panel& p, int64_t begin, int64_t end) {
  const int64_t limit = p.limit;
  begin = std::min(std::max(begin - p.key, int64_t{0}), limit);
  end = std::min(std::max(end - p.key, int64_t{0}), limit);
  return begin < end ? Run{static_cast<int>(begin), static_cast<int>(end)} : Run{0, 0};
}

void fill(uint64_t* line, int words, Run run) {
  const int first = run.begin / 64, last = (run.end + 63) / 64;
  int w = 0;
  for (; w < first; ++w) line[w] = 0;
  for (; w < last; ++w) line[w] = ~uint64_t{0};
  for (; w < words; ++w) line[w] = 0;
  if (run.empty()) return;
  line[first] &= ~bits_below(run.begin % 64);
  line[last - 1] &= bits_below(run.end - 64 * (last - 1));
}

void set(uint64_t* line, Run run) {
  if (run.empty()) return;
  const int first = run.begin / 64, last = (run.end - 1) / 64;
  line[first] |= bits_between(run.begin, run.end, first);
  for (int w = first + 1; w <= last; ++w) line[w] |= bits_between(run.begin, run.end, w);
}

// An operand over a panel. Bits beyond the panel's limit are zero.
struct Operand {
  enum Form { kRuns, kOneLine, kBits } form;
  uint64_t* bits;  // where this place of the stack has its lines
  int64_t stride;  // of `bits`, in words
  uint64_t line[kPanelWords];  // kOneLine: the same for every row
  int64_t line_maker = -1, line_key;  // whose line that is, and from which key on: other panels may have it, too
  Run runs[kMaxPanelRows];

  const uint64_t* row(int r) const { return form == kOneLine ? line : bits + r * stride; }

  // Whether the line has to be made for this instruction.
  bool start_line(int64_t maker, int64_t key) {
    const bool kept = line_maker == maker && line_key == key;
    form = kOneLine;
    line_maker = maker;
    line_key = key;
    return !kept;
  }
};

void all_rows(Operand* out, const Panel& p, Run run) {
  out->form = Operand::kRuns;
  std::fill(out->runs, out->runs + p.rows, run);
}

// get(row, &begin, &end): a row's keys.
template <class Get>
void each_row(Operand* out, const Panel& p, Get get) {
  out->form = Operand::kRuns;
  for (int r = 0; r < p.rows; ++r) {
    int64_t begin, end;
    get(p.row + r, &begin, &end);
    out->runs[r] = run_of(p, begin, end);
  }
}

// choose(row): whether a row has all keys; else it has none.
template <class Choose>
void chosen_rows(Operand* out, const Panel& p, Choose choose) {
  out->form = Operand::kRuns;
  for (int r = 0; r < p.rows; ++r) out->runs[r] = Run{0, choose(p.row + r) ? p.limit : 0};
}

// A word with bit 0 and every step-th bit after it.
uint64_t every(int64_t step) {
  uint64_t bits = 1;
  for (int64_t n = step; n < 64; n *= 2) bits |= bits << n;
  return bits;
}

// The first row word by word; the rows of the first step are each the one before, moved by one key.
void residues(Operand* out, const Panel& p, int64_t step, int64_t offset) {
  out->form = Operand::kBits;
  const uint64_t pattern = every(step);
  const int64_t advance = 64 % step;
  // The first key from the panel's or the word's first on that is in the residue class.
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

void key_residues(Operand* out, const Panel& p, int64_t step, int64_t begin, int64_t end) {
  std::fill(out->line, out->line + p.words, uint64_t{0});
  begin = std::min(std::max(begin, int64_t{0}), step);
  end = std::min(end, step);
  if (begin >= end) return;
  for (int64_t key = p.key / step * step; key < p.key + p.limit; key += step) {
    set(out->line, run_of(p, key + begin, key + end));
  }
}

void key_set(Operand* out, const Panel& p, const int64_t* words, int64_t bits) {
  const int64_t room = std::min(bits - p.key, static_cast<int64_t>(p.limit));
  for (int w = 0; w < p.words; ++w) {
    const int64_t left = room - 64 * w;
    out->line[w] = left > 0 ? static_cast<uint64_t>(words[p.key / 64 + w]) & bits_below(left) : 0;
  }
}

// The row of a table of blocks, its runs of set bits stretched to keys.
void block_row(uint64_t* line, const Panel& p, const int64_t* table, int64_t block, int64_t blocks) {
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

void block_table(Operand* out, const Panel& p, const int64_t* table, int64_t block, int64_t blocks) {
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

void load(Operand* out, const Panel& p, const Structure& s, int64_t i, bool with_residues) {
  const MaskInstruction in = s.instruction(i);
  const int64_t* words = s.words;
  const auto of_batch = [&] { return words[in.a + (in.b == 1 ? 0 : p.batch)]; };
  switch (static_cast<MaskOp>(in.op)) {
    case MaskOp::kBand:
      return each_row(out, p, [&](int64_t row, int64_t* begin, int64_t* end) {
        *begin = row + in.a;
        *end = row + in.b + 1;
      });
    case MaskOp::kResidue:
      return with_residues ? residues(out, p, in.a, in.b) : all_rows(out, p, Run{0, 0});
    case MaskOp::kKeyResidue:
      if (out->start_line(i, p.key)) key_residues(out, p, in.a, in.b, in.c);
      return;
    case MaskOp::kSameBlock:
      return each_row(out, p, [&](int64_t row, int64_t* begin, int64_t* end) {
        *begin = row / in.a * in.a;
        *end = *begin + in.a;
      });
    case MaskOp::kKeyRange: return all_rows(out, p, run_of(p, in.a, in.b));
    case MaskOp::kRowRange: return chosen_rows(out, p, [&](int64_t row) { return in.a <= row && row < in.b; });
    case MaskOp::kKeySet:
      if (out->start_line(i, p.key)) key_set(out, p, words + in.a, in.b);
      return;
    case MaskOp::kRowSet:
      return chosen_rows(out, p, [&](int64_t row) { return row < in.b && bit_of(words + in.a, row); });
    case MaskOp::kKeyBelow: return all_rows(out, p, run_of(p, 0, of_batch()));
    case MaskOp::kRowBelow: {
      const int64_t end = of_batch();
      return chosen_rows(out, p, [&](int64_t row) { return row < end; });
    }
    case MaskOp::kRowInterval: {
      const int64_t* intervals = words + in.a + 2 * (in.b == 1 ? 0 : p.batch) * in.c;
      return each_row(out, p, [&](int64_t row, int64_t* begin, int64_t* end) {
        *begin = row < in.c ? intervals[2 * row] : 0;
        *end = row < in.c ? intervals[2 * row + 1] : 0;
      });
    }
    case MaskOp::kBlockTable: return block_table(out, p, words + in.a, in.b, in.c);
    default: return all_rows(out, p, Run{0, p.limit});
  }
}

// Both change `x` in place and return whether they could.
bool intersect_runs(Operand* x, const Operand& y, const Panel& p) {
  if (x->form != Operand::kRuns || y.form != Operand::kRuns) return false;
  for (int r = 0; r < p.rows; ++r) {
    const int begin = std::max(x->runs[r].begin, y.runs[r].begin), end = std::min(x->runs[r].end, y.runs[r].end);
    x->runs[r] = begin < end ? Run{begin, end} : Run{0, 0};
  }
  return true;
}

bool unite_runs(Operand* x, const Operand& y, const Panel& p) {
  if (x->form != Operand::kRuns || y.form != Operand::kRuns) return false;
  const auto apart = [](Run a, Run b) { return a.end < b.begin || b.end < a.begin; };
  for (int r = 0; r < p.rows; ++r) {
    const Run a = x->runs[r], b = y.runs[r];
    if (!a.empty() && !b.empty() && apart(a, b)) return false;
  }
  for (int r = 0; r < p.rows; ++r) {
    const Run a = x->runs[r], b = y.runs[r];
    if (a.empty() || b.empty()) {
      x->runs[r] = a.empty() ? b : a;
    } else {
      x->runs[r] = Run{std::min(a.begin, b.begin), std::max(a.end, b.end)};
    }
  }
  return true;
}

// One row's lines to `out`, which may be `from` itself.
void clip(uint64_t* out, const uint64_t* from, int words, Run run) {
  const int first = run.begin / 64, last = (run.end + 63) / 64;
  int w = 0;
  for (; w < first; ++w) out[w] = 0;
  if (first < last) {
    const uint64_t head = from[first] & ~bits_below(run.begin % 64);
    out[first] = head;
    for (w = first + 1; w < last; ++w) out[w] = from[w];
    out[last - 1] &= bits_below(run.end - 64 * (last - 1));
  }
  for (; w < words; ++w) out[w] = 0;
}

void intersect(Operand* x, const Operand& y, const Panel& p) {
  if (intersect_runs(x, y, p)) return;
  const bool runs_left = x->form == Operand::kRuns, runs_right = y.form == Operand::kRuns;
  for (int r = 0; r < p.rows; ++r) {
    uint64_t* out = x->bits + r * x->stride;
    if (runs_left) {
      clip(out, y.row(r), p.words, x->runs[r]);
    } else if (runs_right) {
      clip(out, x->row(r), p.words, y.runs[r]);
    } else {
      const uint64_t *a = x->row(r), *b = y.row(r);
      for (int w = 0; w < p.words; ++w) out[w] = a[w] & b[w];
    }
  }
  x->form = Operand::kBits;
}

void copy_and_set(uint64_t* out, const uint64_t* from, int words, Run run) {
  if (out != from) std::copy(from, from + words, out);
  set(out, run);
}

void unite(Operand* x, const Operand& y, const Panel& p) {
  if (unite_runs(x, y, p)) return;
  const bool runs_left = x->form == Operand::kRuns, runs_right = y.form == Operand::kRuns;
  for (int r = 0; r < p.rows; ++r) {
    uint64_t* out = x->bits + r * x->stride;
    if (runs_left && runs_right) {
      fill(out, p.words, x->runs[r]);
      set(out, y.runs[r]);
    } else if (runs_left) {
      copy_and_set(out, y.row(r), p.words, x->runs[r]);
    } else if (runs_right) {
      copy_and_set(out, x->row(r), p.words, y.runs[r]);
    } else {
      const uint64_t *a = x->row(r), *b = y.row(r);
      for (int w = 0; w < p.words; ++w) out[w] = a[w] | b[w];
    }
  }
  x->form = Operand::kBits;
}

void to_bits(Operand* x, const Panel& p) {
  for (int r = 0; r < p.rows; ++r) {
    uint64_t* out = x->bits + r * x->stride;
    if (x->form == Operand::kRuns) {
      fill(out, p.words, x->runs[r]);
    } else if (x->form == Operand::kOneLine) {
      std::copy(x->line, x->line + p.words, out);
    }
  }
  x->form = Operand::kBits;
}

void complement(uint64_t* line, const Panel& p) {
  for (int w = 0; w < p.words; ++w) line[w] = ~line[w];
  line[p.words - 1] &= bits_below(p.limit - 64 * (p.words - 1));
}

void complement(Operand* x, const Panel& p) {
  if (x->form == Operand::kOneLine) {
    x->line_maker = -1;
    return complement(x->line, p);
  }
  const auto at_edge = [&](Run run) { return run.begin == 0 || run.end == p.limit; };
  if (x->form == Operand::kRuns && std::all_of(x->runs, x->runs + p.rows, at_edge)) {
    for (int r = 0; r < p.rows; ++r) {
      const Run run = x->runs[r];
      x->runs[r] = run.begin > 0 ? Run{0, run.begin} : run.end < p.limit ? Run{run.end, p.limit} : Run{0, 0};
    }
    return;
  }
  to_bits(x, p);
  for (int r = 0; r < p.rows; ++r) complement(x->bits + r * x->stride, p);
}

}  // namespace

void evaluate_rows(const Structure& s, int64_t batch, int64_t row, int64_t rows, int64_t k_len, bool with_residues,
                   uint64_t* words) {
  const int64_t width = words_for(k_len);
  if (width == 0) return;
  Operand stack[kMaxStructureDepth];
  uint64_t scratch[kMaxStructureDepth - 1][kPanelWords];
  const int64_t panel_width = std::min<int64_t>(width, kPanelWords);
  const int64_t panel_rows = std::min<int64_t>(kPanelWords / panel_width, kMaxPanelRows);
  for (int64_t first_row = 0; first_row < rows; first_row += panel_rows) {
    for (int64_t word = 0; word < width; word += panel_width) {
      Panel p;
      p.batch = batch;
      p.row = row + first_row;
      p.key = 64 * word;
      p.rows = static_cast<int>(std::min(panel_rows, rows - first_row));
      p.words = static_cast<int>(std::min(panel_width, width - word));
      p.limit = static_cast<int>(std::min<int64_t>(64 * p.words, k_len - p.key));
      // The lowest place of the stack is the result's own.
      stack[0].bits = words + first_row * width + word;
      stack[0].stride = width;
      int depth = 0;
      for (int64_t i = 0; i < s.count(); ++i) {
        switch (static_cast<MaskOp>(s.instruction(i).op)) {
          case MaskOp::kAnd: --depth; intersect(&stack[depth - 1], stack[depth], p); break;
          case MaskOp::kOr: --depth; unite(&stack[depth - 1], stack[depth], p); break;
          case MaskOp::kNot: complement(&stack[depth - 1], p); break;
          default:
            if (depth > 0) {
              stack[depth].bits = scratch[depth - 1];
              stack[depth].stride = p.words;
            }
            load(&stack[depth++], p, s, i, with_residues);
        }
      }
      to_bits(&stack[0], p);
    }
  }
}

}  // namespace fused_attention
