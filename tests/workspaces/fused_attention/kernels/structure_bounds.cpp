// Reads lines of [size, batch, q_len, k_len, program ...] and evaluates the programs that the check lets pass, each in
// memory of exactly its size. Prints how often each operation was evaluated. Built with sanitizers.
#include <iostream>
#include <vector>

#include "structure.cpp"
#include "structure_check.cpp"

using namespace fused_attention;

int main() {
  std::vector<int64_t> counts(16);
  int64_t size, batch, q_len, k_len;
  while (std::cin >> size >> batch >> q_len >> k_len) {
    std::vector<int64_t> program(size - 3);
    for (int64_t& word : program) std::cin >> word;
    program.shrink_to_fit();
    if (!check_structure(program.data(), program.size(), batch, q_len, k_len).empty()) continue;
    const Structure s{program.data(), static_cast<int64_t>(program.size())};
    for (int64_t i = 0; i < s.count(); ++i) ++counts[s.instruction(i).op];
    std::vector<uint64_t> words(q_len * words_for(k_len));
    evaluate_rows(s, batch - 1, 0, q_len, k_len, true, words.data());
  }
  for (const int64_t count : counts) std::cout << count << "\n";
}
