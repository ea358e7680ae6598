// The bandwidth that DiLoCo needs, by the share of the time that devices are to compute.
//
// The paper simulates utilisation at 50 rates from 0.1 to 1,000 Gbps, even on a logarithmic scale,
// and prints the first that reaches each column. So do we, with the law `diloco-utilisation`; a cell
// can be off by whole steps of that grid, each a factor of 1.207.
#include <algorithm>
#include <array>
#include <cmath>

#include "evidence/reproduce/papers.h"
#include "predict/cost/diloco_utilisation.h"

namespace tombolo::reproduce {
namespace {

constexpr int kRates = 50;
double grid(int k) { return std::pow(10, -1 + 4.0 * k / (kRates - 1)); }  // Gbps

constexpr std::array<double, 5> kColumns = {50, 80, 90, 95, 99};

struct Cells {
  int64_t every;
  std::array<double, 5> gbps;  // as printed
};
struct Block {
  const char* table;
  const char* model;
  double parameters;
  Seconds step;
  std::array<Cells, 5> rows;
};

// Data parallelism and DiLoCo with H = 1 have the same cells.
constexpr Block kBlocks[] = {{"diloco/table-6-10b",
                              "Chinchilla, 10 billion, steps of 0.8 s",
                              10e9,
                              Seconds{0.8},
                              {{{1, {104.8, 184.2, 222.3, 222.3, 390.7}},
                                {10, {16.0, 49.4, 86.8, 152.6, 222.3}},
                                {50, {3.0, 11.0, 23.3, 41.0, 126.5}},
                                {100, {1.4, 6.2, 13.3, 23.3, 86.8}},
                                {300, {0.5, 2.0, 4.3, 9.1, 41.0}}}}},
                             {"diloco/table-6-405b",
                              "Llama 3, 405 billion, steps of 26 s",
                              405e9,
                              Seconds{26},
                              {{{1, {126.5, 222.3, 268.3, 323.8, 323.8}},
                                {10, {19.3, 72.0, 126.5, 184.2, 268.3}},
                                {50, {3.6, 13.3, 28.1, 59.6, 184.2}},
                                {100, {2.0, 7.5, 16.0, 33.9, 126.5}},
                                {300, {0.7, 3.0, 6.2, 13.3, 59.6}}}}},
                             {"diloco/table-6-671b",
                              "DeepSeek-V3, 671 billion, steps of 20 s",
                              671e9,
                              Seconds{20},
                              {{{1, {323.8, 569.0, 686.6, 686.6, 1000.0}},
                                {10, {49.4, 152.6, 268.3, 390.7, 686.6}},
                                {50, {7.5, 33.9, 72.0, 126.5, 390.7}},
                                {100, {4.3, 16.0, 41.0, 72.0, 268.3}},
                                {300, {1.7, 6.2, 13.3, 28.1, 126.5}}}}}};

// 1,000 is "1000.0+": their grid ends there.
constexpr const char* kTail =
    "theirs has a tail from 95 to 99 % (222 to 391 Gbps, 687 to over 1,000) that hiding two thirds "
    "of "
    "a step does not give";

// The first rate of the grid that is no lower; its end where none is.
double on_grid(BytesPerSecond rate) {
  for (int k = 0; k < kRates; ++k) {
    if (grid(k) >= rate / 1_Gbps) return grid(k);
  }
  return grid(kRates - 1);
}

// As a share of the printed figure, whose digits may be few: 0.5 stands for 0.518.
double one_step(double printed) {
  const auto nearest = static_cast<int>(std::lround((std::log10(printed) + 1) * (kRates - 1) / 4));
  const double above = grid(nearest + 1) / printed - 1, below = 1 - grid(nearest - 1) / printed;
  return std::max(above, below) + 1e-9;
}

Table table_of(const Block& block) {
  Table table{
      block.table,
      "Charles et al. 2025, Communication-Efficient Language Model Training Scales Reliably "
      "and Robustly: Scaling Laws for DiLoCo, table 6: " +
          std::string(block.model) + ", simulated",
      "one step of their grid of rates, a factor of 1.207. The bits of a parameter (12) and "
      "what is hidden (2/3 of a step) are not in the paper: both are fitted to this table",
      {}};
  for (const Cells& row : block.rows) {
    for (size_t column = 0; column < kColumns.size(); ++column) {
      const double percent = kColumns[column], printed = row.gbps[column];
      const cost::DilocoSteps steps{
          .parameters = block.parameters, .step = block.step, .every = row.every};
      const std::string name = row.every == 1
                                   ? fmt::format("data parallel, or every step, {:.0f} %", percent)
                                   : fmt::format("every {} steps, {:.0f} %", row.every, percent);
      table.rows.push_back({name, on_grid(cost::diloco_rate(steps, percent / 100)), printed, "Gbps",
                            one_step(printed)});
      if (percent == 99) table.rows.back() = row_or_miss(table.rows.back(), kTail);
    }
  }
  return table;
}

}  // namespace

std::vector<Table> diloco() {
  std::vector<Table> tables;
  for (const Block& block : kBlocks) tables.push_back(table_of(block));
  return tables;
}

}  // namespace tombolo::reproduce
