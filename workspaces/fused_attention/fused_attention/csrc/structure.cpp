// Evaluates a structured mask's program, 64 keys at a time, once for each panel of rows and keys.
// Most operands are one run of keys in each row. They stay two numbers a row until combined with something else.
#include "structure.h"

#include <algorithm>

#include "structure_panel.h"

namespace fused_attention {

namespace {

void load(Operand* out, const BitPanel& p, const Structure& s, int64_t i, bool with_residues) {
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

// intersect_runs and unite_runs change `x` in place if both operands, and the result, are runs; else they return false.
bool intersect_runs(Operand* x, const Operand& y, const BitPanel& p) {
  if (x->form != Operand::kRuns || y.form != Operand::kRuns) return false;
  for (int r = 0; r < p.rows; ++r) {
    const int begin = std::max(x->runs[r].begin, y.runs[r].begin), end = std::min(x->runs[r].end, y.runs[r].end);
    x->runs[r] = begin < end ? Run{begin, end} : Run{0, 0};
  }
  return true;
}

bool unite_runs(Operand* x, const Operand& y, const BitPanel& p) {
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

// Copies the bits of `run` from one row to `out`, which may be `from` itself, and clears the others.
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

void intersect(Operand* x, const Operand& y, const BitPanel& p) {
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

void unite(Operand* x, const Operand& y, const BitPanel& p) {
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

void to_bits(Operand* x, const BitPanel& p) {
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

void complement(uint64_t* line, const BitPanel& p) {
  for (int w = 0; w < p.words; ++w) line[w] = ~line[w];
  line[p.words - 1] &= bits_below(p.limit - 64 * (p.words - 1));
}

void complement(Operand* x, const BitPanel& p) {
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
  const int64_t panel_rows = std::min<int64_t>(kPanelWords / panel_width, kMaxBitPanelRows);
  for (int64_t first_row = 0; first_row < rows; first_row += panel_rows) {
    for (int64_t word = 0; word < width; word += panel_width) {
      BitPanel p;
      p.batch = batch;
      p.row = row + first_row;
      p.key = 64 * word;
      p.rows = static_cast<int>(std::min(panel_rows, rows - first_row));
      p.words = static_cast<int>(std::min(panel_width, width - word));
      p.limit = static_cast<int>(std::min<int64_t>(64 * p.words, k_len - p.key));
      // The lowest entry of the stack is the result.
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
