// Structured masks, callable from Python: compiled by g++ alone.
#include "structure.cpp"
#include "structure_check.cpp"

using namespace fused_attention;

extern "C" {

void evaluate(const int64_t* program, int64_t batch, int64_t row, int64_t rows, int64_t k_len, int with_residues,
              uint64_t* words) {
  evaluate_rows(Structure{program, 0}, batch, row, rows, k_len, with_residues != 0, words);
}

void evaluate_by_definition(const int64_t* program, int64_t batch, int64_t row, int64_t rows, int64_t k_len,
                            int with_residues, uint64_t* words) {
  const int64_t width = words_for(k_len);
  for (int64_t i = 0; i < rows * width; ++i) words[i] = 0;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t key = 0; key < k_len; ++key) {
      const uint64_t bit = attends(Structure{program, 0}, batch, row + i, key, with_residues != 0);
      words[i * width + key / 64] |= bit << (key % 64);
    }
  }
}

// Writes the error's text to `text`, cut to `room` bytes.
void check(const int64_t* program, int64_t size, int64_t batch, int64_t q_len, int64_t k_len, char* text, int room) {
  const std::string error = check_structure(program, size, batch, q_len, k_len);
  text[error.copy(text, room - 1)] = 0;
}
}
