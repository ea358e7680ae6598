// How well a Gaussian process that saw half of the probes of a convergence profile knows the other half: the root
// mean square of its errors over that of the mean of what it saw, for 20 random halves.
//
//   gaussian_halves probes.csv...
//
// Tables with the columns total_batch, x1 (the second axis that was searched) and loss_delta_vs_base. StellaTrain's
// authors publish theirs as pickles (kaist-ina/stellatrain, bayesian/profile) without a licence, so none is here.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "base/csv.h"
#include "base/file.h"
#include "base/random.h"
#include "steer/tune/gaussian_process.h"

using namespace tombolo;

namespace {

struct Probes {
  std::vector<tune::Point> points;
  std::vector<double> values;
};

Result<Probes> read(const std::string& path) {
  Probes out;
  for (const CsvRow& row : TRY(parse_csv(TRY(read_file(path)), path))) {
    const double batch = TRY(row.number("total_batch")), other = TRY(row.number("x1"));
    out.points.push_back({std::log2(batch), other});
    out.values.push_back(
        std::strtod(TRY(row.text("loss_delta_vs_base")).c_str(), nullptr));  // below zero, too
  }
  return out;
}

Result<double> quotient(const Probes& all, Random& random) {
  std::vector<size_t> order(all.points.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
  const size_t half = order.size() / 2;
  std::vector<tune::Point> points;
  std::vector<double> values;
  for (size_t i = 0; i < half; ++i) {
    points.push_back(all.points[order[i]]);
    values.push_back(all.values[order[i]]);
  }
  const double mean =
      std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(half);
  const auto process = TRY(tune::GaussianProcess::fit(points, values, tune::KernelKind::kMatern52));
  double of_process = 0, of_mean = 0;
  for (size_t i = half; i < order.size(); ++i) {
    const double value = all.values[order[i]];
    of_process += std::pow(process.at(all.points[order[i]]).mean - value, 2);
    of_mean += std::pow(mean - value, 2);
  }
  return std::sqrt(of_process / of_mean);
}

Status measure(const std::string& path) {
  const Probes probes = TRY(read(path));
  Random random(1);
  std::vector<double> quotients;
  for (int i = 0; i < 20; ++i) quotients.push_back(TRY(quotient(probes, random)));
  std::sort(quotients.begin(), quotients.end());
  fmt::print(
      "{{\"question\":\"errors over those of the mean\",\"probes\":{},\"median\":{:.3f},"
      "\"least\":{:.3f},\"most\":{:.3f},\"mean\":{:.3f},\"file\":\"{}\"}}\n",
      probes.points.size(), quotients[quotients.size() / 2], quotients.front(), quotients.back(),
      std::accumulate(quotients.begin(), quotients.end(), 0.0) / 20, path);
  return {};
}

}  // namespace

int main(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    if (const Status done = measure(arguments[i]); !done) {
      fmt::print(stderr, "{}\n", done.error().text());
      return done.error().exit_code();
    }
  }
  return 0;
}
