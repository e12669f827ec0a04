// Plans from bits, callable from Python, and how often each element is computed under them.
#include "cpu/plan.cpp"

using namespace fused_attention;

namespace {

// Adds 1 to counts[row][key] for each element that a panel gives a weight. Returns -1 where it reads what is not there.
int count(const HeadPlan& plan, int64_t q_len, int64_t k_len, const int* multiples, int32_t* counts) {
  for (const Panel& panel : plan.panels) {
    if (panel.rows < 1 || panel.rows > panel.granules * kGranule) return -1;
    const int multiple = multiples[panel.granules == 4 ? 2 : panel.granules - 1];
    if (multiple == 0) return -1;
    for (int c = panel.chunk_begin; c < panel.chunk_end; ++c) {
      const Chunk& chunk = plan.chunks[c];
      if (chunk.count < 1 || chunk.count > kChunkKeys || chunk.count % multiple != 0) return -1;
      if (!chunk.is_list && (chunk.first % 2 != 0 || chunk.first + chunk.count > panel.key_end)) return -1;
      for (int i = 0; i < chunk.count; ++i) {
        const int64_t key = chunk.is_list ? plan.keys[chunk.first + i] : chunk.first + i;
        if (key >= k_len || (key < 0 && chunk.words < 0)) return -1;
        for (int r = 0; r < panel.rows; ++r) {
          const int granule = r / kGranule;
          const bool seen =
              chunk.words < 0 || (plan.words[chunk.words + i * panel.granules + granule] >> (r % kGranule)) & 1;
          if (!seen) continue;
          const int64_t row = panel.is_listed ? plan.rows[panel.row + r] : panel.row + r;
          if (key < 0 || row < 0 || row >= q_len) return -1;
          ++counts[row * k_len + key];
        }
      }
    }
  }
  return static_cast<int>(plan.panels.size());
}

}  // namespace

extern "C" {

// words[q_len][words_for(k_len)]; with a step, `rest` is what the mask has without its residues. The panels'
// number, or -1.
int plan(const uint64_t* words, const uint64_t* rest, int64_t step, int64_t q_len, int64_t k_len, const int* multiples,
         int32_t* counts, float* cost) {
  const PanelCosts costs{0, {multiples[0], multiples[1], multiples[2]}, {1.2f, 1.05f, 1.0f}, 0.1f};
  const int64_t width = words_for(k_len);
  const auto rows_of = [&](const uint64_t* source) {
    return [=](int64_t row, int64_t rows, uint64_t* out) { std::copy_n(source + row * width, rows * width, out); };
  };
  const HeadPlan made = step ? make_residue_plan(rows_of(words), rows_of(rest), step, q_len, k_len, costs)
                         : make_plan(rows_of(words), q_len, k_len, costs);
  *cost = made.cost.back();
  return count(made, q_len, k_len, multiples, counts);
}

void transpose(uint64_t* words) {
  transpose_bits(words);
}
}
