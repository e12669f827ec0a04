// Kernels of the paper's evaluation, compiled by taco and timed on random sparse operands with a fixed seed:
//   spmv    y(i) = A(i,j) x(j)              add     A(i,j) = B(i,j) + C(i,j)
//   sddmm   A(i,k) = B(i,k) C(i,j) D(j,k)   ttv     A(i,j) = B(i,j,k) c(k)
//   mttkrp  A(i,j) = B(i,k,l) C(k,j) D(l,j)
// Prints one JSON object a kernel: milliseconds of the numeric computation alone, compiled and assembled before, as the
// paper times it. A weighted sum over each result is held against plain loops first: a wrong result prints no time.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "taco.h"
#include "taco/index_notation/kernel.h"
#include "taco/index_notation/transformations.h"

using namespace taco;

static const int REPEATS = 25;
static std::mt19937 generator(0);

static double real() { return std::uniform_real_distribution<double>(0.5, 1.5)(generator); }

// Differs by coordinate, so that a value in the wrong place shows in the sum.
static double weight(int i, int j) { return 1 + (3 * i + j) % 7; }

struct Entry {
  std::vector<int> at;
  double value;
};

struct Random {
  Tensor<double> tensor;
  std::vector<Entry> entries;

  // Where two entries fall together, taco adds them up, as the plain loops do.
  Random(const char* name, std::vector<int> dimensions, Format format, int count) : tensor(name, dimensions, format) {
    for (int n = 0; n < count; n++) {
      Entry entry;
      for (int dimension : dimensions) entry.at.push_back(static_cast<int>(generator() % dimension));
      entry.value = real();
      tensor.insert(entry.at, entry.value);
      entries.push_back(entry);
    }
    tensor.pack();
  }
};

struct Matrix {
  Tensor<double> tensor;
  std::vector<double> values;
  int columns;

  Matrix(const char* name, int rows, int columns, Format format = Format({Dense, Dense}))
      : tensor(name, {rows, columns}, format), columns(columns) {
    for (int i = 0; i < rows; i++) {
      for (int j = 0; j < columns; j++) {
        values.push_back(real());
        tensor.insert({i, j}, values.back());
      }
    }
    tensor.pack();
  }

  double operator()(int i, int j) const { return values[i * columns + j]; }
};

struct Vector {
  Tensor<double> tensor;
  std::vector<double> values;

  Vector(const char* name, int size) : tensor(name, {size}, Format({Dense})) {
    for (int i = 0; i < size; i++) {
      values.push_back(real());
      tensor.insert({i}, values.back());
    }
    tensor.pack();
  }
};

static void measure(const std::string& name, Tensor<double>& result, std::vector<TensorBase> operands, double expected) {
  result.compile();
  result.assemble();
  result.compute();
  double sum = 0;
  for (auto& component : result) {
    sum += component.second * weight(component.first[0], result.getOrder() > 1 ? component.first[1] : 0);
  }
  if (!(std::abs(sum - expected) <= 1e-9 * std::abs(expected))) {
    std::fprintf(stderr, "%s is wrong: its weighted sum is %.17g, not %.17g\n", name.c_str(), sum, expected);
    std::exit(1);
  }
  // A tensor computes once and then knows its values; the kernel itself computes as often as it is called.
  IndexStmt statement = makeConcreteNotation(makeReductionNotation(result.getAssignment()));
  Kernel kernel = compile(insertTemporaries(reorderLoopsTopologically(statement)));
  std::vector<TensorStorage> arguments = {result.getStorage()};
  for (auto& operand : operands) arguments.push_back(operand.getStorage());
  std::printf("{\"metric\": \"%s.time\", \"unit\": \"ms\", \"samples\": [", name.c_str());
  for (int n = 0; n < REPEATS; n++) {
    auto start = std::chrono::steady_clock::now();
    kernel.compute(arguments);
    std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
    std::printf("%s%.6f", n ? ", " : "", taken.count());
  }
  std::printf("]}\n");
  std::fflush(stdout);
}

static double over(const Random& operand, std::function<double(const std::vector<int>&)> factor) {
  double sum = 0;
  for (auto& entry : operand.entries) sum += entry.value * factor(entry.at);
  return sum;
}

int main() {
  const int n = 20000, nonzeros = 1000000, rank = 32, side = 300;
  Format csr({Dense, Sparse}), csf({Sparse, Sparse, Sparse});
  IndexVar i("i"), j("j"), k("k"), l("l");

  Random B("B", {n, n}, csr, nonzeros), C("C", {n, n}, csr, nonzeros);
  Vector x("x", n);
  Tensor<double> y("y", {n}, Format({Dense}));
  y(i) = B.tensor(i, j) * x.tensor(j);
  measure("spmv", y, {B.tensor, x.tensor}, over(B, [&](const std::vector<int>& at) { return weight(at[0], 0) * x.values[at[1]]; }));

  auto weighted = [](const std::vector<int>& at) { return weight(at[0], at[1]); };
  Tensor<double> sum("A", {n, n}, csr);
  sum(i, j) = B.tensor(i, j) + C.tensor(i, j);
  measure("add", sum, {B.tensor, C.tensor}, over(B, weighted) + over(C, weighted));

  // Column by column: with E row by row taco sums over j outside k, and its code for a sparse A is wrong.
  Matrix left("D", n, rank), right("E", rank, n, Format({Dense, Dense}, {1, 0}));
  Tensor<double> sampled("F", {n, n}, csr);
  sampled(i, k) = B.tensor(i, k) * left.tensor(i, j) * right.tensor(j, k);
  measure("sddmm", sampled, {B.tensor, left.tensor, right.tensor}, over(B, [&](const std::vector<int>& at) {
            double dot = 0;
            for (int r = 0; r < rank; r++) dot += left(at[0], r) * right(r, at[1]);
            return weight(at[0], at[1]) * dot;
          }));

  Random T("T", {side, side, side}, csf, nonzeros);
  Vector c("c", side);
  Tensor<double> contracted("G", {side, side}, Format({Dense, Dense}));
  contracted(i, j) = T.tensor(i, j, k) * c.tensor(k);
  measure("ttv", contracted, {T.tensor, c.tensor},
          over(T, [&](const std::vector<int>& at) { return weight(at[0], at[1]) * c.values[at[2]]; }));

  Matrix H("H", side, rank), K("K", side, rank);
  Tensor<double> factored("M", {side, rank}, Format({Dense, Dense}));
  factored(i, j) = T.tensor(i, k, l) * H.tensor(k, j) * K.tensor(l, j);
  measure("mttkrp", factored, {T.tensor, H.tensor, K.tensor}, over(T, [&](const std::vector<int>& at) {
            double row = 0;
            for (int r = 0; r < rank; r++) row += weight(at[0], r) * H(at[1], r) * K(at[2], r);
            return row;
          }));
}
