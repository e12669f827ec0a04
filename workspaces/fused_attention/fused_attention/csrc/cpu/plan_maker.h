// Builds a HeadPlan, a group of up to 64 rows at a time.
#pragma once

#include <algorithm>

#include "bits.h"
#include "plan.h"

namespace fused_attention {

constexpr int64_t kWord = 64;
// A gap of up to this many keys between two long runs is computed and dropped, so that the two are one run.
constexpr int64_t kGap = 3;
// A shorter run becomes a list unless it fills blocks: copying its keys costs less than computing keys that no row
// sees.
constexpr int64_t kShortRun = 24;
// The fixed cost of a granule, in keys: its query rows are transposed and its output is written.
constexpr float kGranuleCost = 3.0f;

inline bool get_bit(const uint64_t* words, int64_t bit) {
  return (words[bit / kWord] >> (bit % kWord)) & 1;
}

// The first set (or clear, with `value` false) bit in [bit, end), or end.
inline int64_t next_bit(const uint64_t* words, int64_t bit, int64_t end, bool value) {
  while (bit < end) {
    const uint64_t word = (value ? words[bit / kWord] : ~words[bit / kWord]) >> (bit % kWord);
    if (word) return std::min<int64_t>(end, bit + __builtin_ctzll(word));
    bit = (bit / kWord + 1) * kWord;
  }
  return end;
}

inline int size_index(int granules) {
  return granules == 4 ? 2 : granules - 1;
}

class PlanMaker {
 public:
  PlanMaker(int64_t k_len, const PanelCosts& costs, HeadPlan& plan)
      : k_len_(k_len), width_(words_for(k_len)), costs_(costs), plan_(plan), by_key_(width_ * kWord),
        has_by_key_(width_), any_(kMaxPanelRows / kGranule * width_), all_(any_.size()), panel_any_(width_),
        panel_all_(width_) {}

  // A group's approximate cost.
  float estimate_group(int rows, const uint64_t* words) { return begin_group(rows, words).cost; }

  // At most 64 rows whose bits are words[row][width].
  void add_group(int64_t first, int rows, bool is_listed, bool continues, bool finishes, const uint64_t* words) {
    const int size = begin_group(rows, words).granules;
    const int granules = (rows + kGranule - 1) / kGranule;
    std::fill(has_by_key_.begin(), has_by_key_.end(), 0);
    for (int g = 0; g < granules; g += size) {
      Panel panel;
      panel.row = static_cast<int32_t>(first + g * kGranule);
      panel.rows = std::min(rows - g * kGranule, size * kGranule);
      panel.granules = size;
      panel.is_listed = is_listed;
      panel.continues = continues;
      panel.finishes = finishes;
      add_panel(panel, g, std::min(g + size, granules));
    }
  }

 private:
  struct PanelSize {
    int granules;
    float cost;
  };

  PanelSize begin_group(int rows, const uint64_t* words) {
    words_ = words;
    rows_ = rows;
    const int granules = (rows + kGranule - 1) / kGranule;
    for (int g = 0; g < granules; ++g) gather_granule(g);
    return cheapest_size(granules);
  }

  void gather_granule(int g) {
    uint64_t* any = any_.data() + g * width_;
    uint64_t* all = all_.data() + g * width_;
    const int begin = g * kGranule, end = std::min(rows_, begin + kGranule);
    std::copy_n(words_ + begin * width_, width_, any);
    std::copy_n(any, width_, all);
    for (int row = begin + 1; row < end; ++row) {
      const uint64_t* line = words_ + row * width_;
      for (int64_t w = 0; w < width_; ++w) {
        any[w] |= line[w];
        all[w] &= line[w];
      }
    }
  }

  void gather_panel(int begin, int end) {
    std::copy_n(any_.data() + begin * width_, width_, panel_any_.data());
    std::copy_n(all_.data() + begin * width_, width_, panel_all_.data());
    for (int g = begin + 1; g < end; ++g) {
      for (int64_t w = 0; w < width_; ++w) {
        panel_any_[w] |= any_[g * width_ + w];
        panel_all_[w] &= all_[g * width_ + w];
      }
    }
  }

  // The panel size with the lowest cost: the keys that any of its rows sees, times a key's cost.
  PanelSize cheapest_size(int granules) {
    PanelSize best{0, 0.0f};
    for (int size = 4; size >= 1; size /= 2) {
      const int index = size_index(size);
      if (costs_.key_multiple[index] == 0 || (size > granules && size / 2 >= granules)) continue;
      float cost = 0.0f;
      for (int g = 0; g < granules; g += size) {
        gather_panel(g, std::min(g + size, granules));
        int64_t keys = 0;
        for (int64_t w = 0; w < width_; ++w) keys += __builtin_popcountll(panel_any_[w]);
        cost += size * (static_cast<float>(keys) * costs_.key_cost[index] + kGranuleCost);
      }
      if (best.granules == 0 || cost < best.cost) best = PanelSize{size, cost};
    }
    return best;
  }

  void add_panel(Panel panel, int begin, int end) {
    gather_panel(begin, end);
    panel.chunk_begin = static_cast<int32_t>(plan_.chunks.size());
    panel.key_end = 0;
    multiple_ = costs_.key_multiple[size_index(panel.granules)];
    granule_ = begin;
    granules_ = panel.granules;
    listed_.clear();
    float keys = 0.0f;
    for (int64_t key = next_bit(panel_any_.data(), 0, k_len_, true); key < k_len_;) {
      int64_t end_key = next_bit(panel_any_.data(), key, k_len_, false);
      int64_t next = next_bit(panel_any_.data(), end_key, k_len_, true);
      while (next < k_len_ && next - end_key <= kGap) {
        const int64_t next_end = next_bit(panel_any_.data(), next, k_len_, false);
        if (next_end - next < kGap * kGap || end_key - key < kGap * kGap) break;
        end_key = next_end;
        next = next_bit(panel_any_.data(), end_key, k_len_, true);
      }
      const bool fits_blocks = key % 2 == 0 && (end_key - key) % multiple_ == 0;
      if (end_key - key < kShortRun && !fits_blocks) {
        list_keys(key, end_key);
      } else {
        keys += static_cast<float>(add_run(key, end_key, panel));
      }
      key = next;
    }
    if (!listed_.empty()) panel.key_end = std::max(panel.key_end, listed_.back() + 1);
    keys += (1.0f + costs_.gather_cost / static_cast<float>(panel.granules)) * static_cast<float>(add_lists());
    panel.chunk_end = static_cast<int32_t>(plan_.chunks.size());
    plan_.panels.push_back(panel);
    const float key_cost = costs_.key_cost[size_index(panel.granules)];
    plan_.visits += static_cast<float>(panel.granules) * keys / static_cast<float>(k_len_);
    plan_.cost.push_back(plan_.cost.back() + panel.granules * (keys * key_cost + kGranuleCost));
  }

  void list_keys(int64_t begin, int64_t end) {
    for (int64_t key = begin; key < end; ++key) {
      if (get_bit(panel_any_.data(), key)) listed_.push_back(static_cast<int32_t>(key));
    }
  }

  // Returns the number of keys computed.
  int64_t add_run(int64_t begin, int64_t end, Panel& panel) {
    const int64_t first = begin & ~int64_t{1};  // pairs of keys lie side by side
    int64_t key = first;
    while (key < end) {
      int64_t count = std::min<int64_t>(end - key, kChunkKeys);
      const int64_t rounded = (count + multiple_ - 1) / multiple_ * multiple_;
      if (key + rounded > k_len_) {
        // The last keys of the sequence: a full block would read beyond them.
        count = count / multiple_ * multiple_;
        list_keys(key + count, end);
        end = key + count;
        if (count == 0) break;
      } else {
        count = rounded;
      }
      Chunk chunk;
      chunk.first = static_cast<int32_t>(key);
      chunk.count = static_cast<int32_t>(count);
      chunk.is_list = false;
      chunk.words = -1;
      const int64_t seen_end = std::min(end, key + count);
      const bool is_full = key >= begin && seen_end == key + count &&
                           next_bit(panel_all_.data(), key, seen_end, false) == seen_end;
      if (!is_full) {
        chunk.words = static_cast<int32_t>(plan_.words.size());
        for (int64_t i = key; i < key + count; ++i) add_words(i >= begin && i < seen_end ? i : -1);
      }
      plan_.chunks.push_back(chunk);
      key += count;
    }
    panel.key_end = std::max(panel.key_end, static_cast<int32_t>(key));
    return key - first;
  }

  int64_t add_lists() {
    const int64_t all = static_cast<int64_t>(listed_.size());
    int64_t computed = 0;
    for (int64_t begin = 0; begin < all; begin += kChunkKeys) {
      const int64_t count = std::min<int64_t>(all - begin, kChunkKeys);
      Chunk chunk;
      chunk.first = static_cast<int32_t>(plan_.keys.size());
      chunk.count = static_cast<int32_t>((count + multiple_ - 1) / multiple_ * multiple_);
      chunk.is_list = true;
      bool is_full = chunk.count == count;
      for (int64_t i = 0; i < chunk.count; ++i) {
        const int32_t key = i < count ? listed_[begin + i] : -1;
        plan_.keys.push_back(key);
        is_full = is_full && get_bit(panel_all_.data(), key);
      }
      chunk.words = is_full ? -1 : static_cast<int32_t>(plan_.words.size());
      for (int64_t i = 0; !is_full && i < chunk.count; ++i) add_words(plan_.keys[chunk.first + i]);
      plan_.chunks.push_back(chunk);
      computed += chunk.count;
    }
    return computed;
  }

  // Adds the bits of the panel's rows that see a key, one word for each granule.
  void add_words(int64_t key) {
    const uint64_t word = key < 0 ? 0 : rows_of_key(key) >> (granule_ * kGranule);
    for (int g = 0; g < granules_; ++g) plan_.words.push_back(static_cast<uint16_t>(word >> (g * kGranule)));
  }

  uint64_t rows_of_key(int64_t key) {
    const int64_t block = key / kWord;
    uint64_t* by_key = by_key_.data() + block * kWord;
    if (!has_by_key_[block]) {
      for (int row = 0; row < rows_; ++row) by_key[row] = words_[row * width_ + block];
      for (int row = rows_; row < kWord; ++row) by_key[row] = 0;
      transpose_bits(by_key);
      has_by_key_[block] = 1;
    }
    return by_key[key % kWord];
  }

  const int64_t k_len_, width_;
  const PanelCosts& costs_;
  HeadPlan& plan_;
  const uint64_t* words_ = nullptr;
  int rows_ = 0, granule_ = 0, granules_ = 0;
  int64_t multiple_ = 0;
  std::vector<uint64_t> by_key_;      // rows that see a key
  std::vector<char> has_by_key_;      // by block of 64 keys
  std::vector<uint64_t> any_, all_;   // [granule][width]
  std::vector<uint64_t> panel_any_, panel_all_;
  std::vector<int32_t> listed_;
};

}  // namespace fused_attention
