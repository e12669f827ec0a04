#include "tiles.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <unordered_map>

namespace fused_attention {

namespace {

constexpr size_t kMaxOffset = std::numeric_limits<int32_t>::max();

// The first `count` bits.
uint64_t low_bits(int64_t count) {
  return count >= 64 ? ~uint64_t{0} : count <= 0 ? 0 : (uint64_t{1} << count) - 1;
}

// The rows of one query tile, and which keys some or all of them see.
class RowBits {
 public:
  RowBits(int64_t tile_rows, int64_t k_len)
      : rows_(0), words_(words_for(k_len)), bits_(tile_rows * words_), any_(words_), all_(words_) {}

  void evaluate(const Structure& structure, bool causal, int64_t batch, int64_t first_row, int64_t rows,
                int64_t k_len) {
    rows_ = rows;
    evaluate_rows(structure, batch, first_row, rows, k_len, true, bits_.data());
    std::fill(any_.begin(), any_.end(), 0);
    std::fill(all_.begin(), all_.end(), ~uint64_t{0});
    for (int64_t row = 0; row < rows; ++row) {
      uint64_t* line = bits_.data() + row * words_;
      if (causal) {
        const int64_t end = first_row + row + 1;
        for (int64_t w = end / 64; w < words_; ++w) line[w] &= low_bits(end - w * 64);
      }
      for (int64_t w = 0; w < words_; ++w) {
        any_[w] |= line[w];
        all_[w] &= line[w];
      }
    }
  }

  bool any(int64_t begin, int64_t end) const {
    return std::any_of(any_.begin() + begin, any_.begin() + end, [](uint64_t word) { return word != 0; });
  }

  bool all(int64_t begin, int64_t end) const {
    return std::all_of(all_.begin() + begin, all_.begin() + end, [](uint64_t word) { return ~word == 0; });
  }

  void copy(int64_t begin, int64_t end, int64_t block_words, std::vector<uint64_t>* block) const {
    std::fill(block->begin(), block->end(), 0);
    for (int64_t row = 0; row < rows_; ++row) {
      const uint64_t* line = bits_.data() + row * words_;
      std::copy(line + begin, line + end, block->begin() + row * block_words);
    }
  }

 private:
  int64_t rows_, words_;
  std::vector<uint64_t> bits_, any_, all_;
};

// Masks repeat along a diagonal or a column, so equal blocks are stored once.
class BlockStore {
 public:
  explicit BlockStore(std::vector<uint64_t>* bits) : bits_(bits) {}

  int32_t put(const std::vector<uint64_t>& block) {
    uint64_t hash = 14695981039346656037u;  // FNV-1a's constants, a word at a time
    for (const uint64_t word : block) {
      hash = (hash ^ word) * 1099511628211u;
      hash ^= hash >> 32;
    }
    const auto known = blocks_.equal_range(hash);
    for (auto at = known.first; at != known.second; ++at) {
      if (std::equal(block.begin(), block.end(), bits_->begin() + at->second * block.size())) return at->second;
    }
    const size_t index = bits_->size() / block.size();
    if (index >= kMaxOffset) throw std::length_error("the mask has too many partial tiles");
    bits_->insert(bits_->end(), block.begin(), block.end());
    blocks_.emplace(hash, static_cast<int32_t>(index));
    return static_cast<int32_t>(index);
  }

 private:
  std::vector<uint64_t>* bits_;
  std::unordered_multimap<uint64_t, int32_t> blocks_;
};

int64_t words_of(size_t bytes) {
  return static_cast<int64_t>((bytes + 15) / 16 * 2);  // each part begins at 16 bytes
}

template <class T>
size_t bytes_of(const std::vector<T>& values) {
  return values.size() * sizeof(T);
}

}  // namespace

int64_t batches_of(const Structure& structure, int64_t batch) {
  for (int64_t i = 0; i < structure.count(); ++i) {
    const MaskInstruction in = structure.instruction(i);
    const MaskOp op = static_cast<MaskOp>(in.op);
    const bool by_batch = op == MaskOp::kKeyBelow || op == MaskOp::kRowBelow || op == MaskOp::kRowInterval;
    if (by_batch && in.b != 1) return batch;
  }
  return 1;
}

TileLists list_tiles(const Structure& structure, bool causal, int64_t batches, int64_t q_len, int64_t k_len,
                     int32_t rows, int32_t keys) {
  TileLists lists{};
  lists.batches = batches;
  lists.query_tiles = (q_len + rows - 1) / rows;
  lists.rows = rows;
  lists.keys = keys;
  BlockStore store(&lists.bits);
  RowBits seen(rows, k_len);
  const int64_t tile_words = keys / 64, words = words_for(k_len);
  std::vector<uint64_t> block(rows * tile_words);
  for (int64_t batch = 0; batch < batches; ++batch) {
    const size_t first_range = lists.ranges.size();
    for (int64_t query_tile = 0; query_tile < lists.query_tiles; ++query_tile) {
      const int64_t first_row = query_tile * rows;
      const int64_t key_end = causal ? std::min<int64_t>(k_len, first_row + rows) : k_len;
      seen.evaluate(structure, causal, batch, first_row, std::min<int64_t>(rows, q_len - first_row), k_len);
      const size_t first_tile = lists.tiles.size();
      for (int64_t key = 0; key < key_end; key += keys) {
        const int64_t begin = key / 64, end = std::min(begin + tile_words, words);
        if (!seen.any(begin, end)) continue;
        int32_t bits = kFullTile;
        if (end < begin + tile_words || !seen.all(begin, end)) {
          seen.copy(begin, end, tile_words, &block);
          bits = store.put(block);
        }
        lists.tiles.push_back(KeyTile{static_cast<int32_t>(key / keys), bits});
      }
      if (lists.tiles.size() > kMaxOffset) throw std::length_error("the mask has too many tiles");
      lists.ranges.push_back(
          KeyTileRange{static_cast<int32_t>(first_tile), static_cast<int32_t>(lists.tiles.size())});
    }
    const KeyTileRange* ranges = lists.ranges.data() + first_range;
    std::vector<int32_t> order(lists.query_tiles);
    std::iota(order.rbegin(), order.rend(), 0);
    std::stable_sort(order.begin(), order.end(), [ranges](int32_t left, int32_t right) {
      return ranges[left].end - ranges[left].begin > ranges[right].end - ranges[right].begin;
    });
    lists.order.insert(lists.order.end(), order.begin(), order.end());
  }
  return lists;
}

std::vector<int64_t> TileLists::packed() const {
  std::vector<int64_t> words;
  const auto append = [&words](const void* data, size_t bytes) {
    const size_t at = words.size();
    words.resize(at + words_of(bytes));
    if (bytes) std::memcpy(words.data() + at, data, bytes);
  };
  append(ranges.data(), bytes_of(ranges));
  append(tiles.data(), bytes_of(tiles));
  append(order.data(), bytes_of(order));
  append(bits.data(), bytes_of(bits));
  return words;
}

TileView TileLists::view(const int64_t* base) const {
  TileView view{};
  view.ranges = reinterpret_cast<const KeyTileRange*>(base);
  base += words_of(bytes_of(ranges));
  view.tiles = reinterpret_cast<const KeyTile*>(base);
  base += words_of(bytes_of(tiles));
  view.order = reinterpret_cast<const int32_t*>(base);
  base += words_of(bytes_of(order));
  view.bits = reinterpret_cast<const uint64_t*>(base);
  view.batch_stride = view.order_stride = batches > 1 ? query_tiles : 0;
  view.rows = rows;
  view.keys = keys;
  return view;
}

}  // namespace fused_attention
