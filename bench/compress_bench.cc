// What do sparse updates cost beside one pass over memory, and how many blocks do they send?
//
//   compress_bench passes [--elements 88000000] [--rounds 7] [--instructions AVX3|AVX2|SCALAR]
//                         [--pages huge]    arrays in pages of 2 MB, as madvise() gives them
//   compress_bench count [--elements 20000000] [--steps 60]
//   compress_bench gradients < FILE     a count, then gradients of as many floats, one after the other
//   compress_bench selections [--elements 4000000]
//
// One core, thread CPU time; everything is measured in turns, and what is reported is the least time
// of each and their ratio. Sketch for 88 million floats at 1 %, in bytes of memory traffic: a
// read-only pass and a selection 352 MB; b[i] += a[i] and fused error feedback 1,056 MB; a dense step
// of SGD 1,056 MB against 55,000 blocks * 192 = 10.6 MB of a sparse one, 100 times less, whose lines
// come one by one; a merge of four 1 % updates reads and writes 220,000 * 128 = 28 MB.
// Checked: what was sent and what stayed add up to what came; sums and counts.
#include <fmt/format.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "perform/compress/chunks.h"
#include "perform/compress/compressor.h"
#include "perform/compress/merge.h"
#include "perform/compress/selection.h"
#include "perform/compress/update_code.h"
#include "perform/update/sparse.h"

using namespace tombolo;
using namespace tombolo::compress;

namespace {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define WIDEST \
  __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3"), noinline))
#else
#define WIDEST __attribute__((noinline))
#endif

WIDEST uint32_t read_only(const uint32_t* x, size_t count) {
  uint32_t lanes[64] = {};
  for (size_t i = 0; i + 64 <= count; i += 64) {
    for (size_t j = 0; j < 64; ++j) lanes[j] ^= x[i + j];
  }
  uint32_t all = 0;
  for (const uint32_t lane : lanes) all ^= lane;
  return all;
}

WIDEST void add(const float* __restrict a, float* __restrict b, size_t count) {
  for (size_t i = 0; i < count; ++i) b[i] += a[i];
}

WIDEST void dense_sgd(float rate, const float* __restrict g, float* __restrict w, size_t count) {
  for (size_t i = 0; i < count; ++i) w[i] -= rate * g[i];
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Nearly normal, 64 random bits each.
float noise(Random& random) {
  const uint64_t bits = random.next();
  float sum = -2;
  for (int i = 0; i < 4; ++i) sum += static_cast<float>((bits >> (16 * i)) & 0xffff) / 65536;
  return sum * 1.732f;
}

// Memory straight from the kernel, in pages of 2 MB where the program is asked for them.
bool g_huge_pages = false;
template <class T>
struct Pages {
  using value_type = T;
  T* allocate(size_t count) {
    void* const at = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED, "no memory for {} numbers", count);
    madvise(at, count * sizeof(T), g_huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return static_cast<T*>(at);
  }
  void deallocate(T* at, size_t count) { munmap(at, count * sizeof(T)); }
  bool operator==(const Pages&) const = default;
};
using Floats = std::vector<float, Pages<float>>;

class Stopwatch {
 public:
  void measure(const std::string& what, const std::function<void()>& work) {
    const double begin = cpu_seconds();
    work();
    const double seconds = cpu_seconds() - begin;
    const auto [it, first] = least_.emplace(what, seconds);
    if (!first) it->second = std::min(it->second, seconds);
    if (first) order_.push_back(what);
  }
  double least(const std::string& what) const { return least_.at(what); }
  const std::vector<std::string>& names() const { return order_; }

 private:
  std::map<std::string, double> least_;
  std::vector<std::string> order_;
};

std::string option(int argc, char** argv, const std::string& name, const std::string& otherwise) {
  for (int i = 2; i + 1 < argc; ++i) {
    if (argv[i] == "--" + name) return argv[i + 1];
  }
  return otherwise;
}

// Blocks of four replicas that chose independently.
std::vector<Blocks> four_updates(int64_t length, const Floats& from) {
  std::vector<Blocks> updates(4);
  Random random(9);
  for (Blocks& update : updates) {
    update.length = length;
    for (int64_t b = 0; b < length / kBlock; ++b) {
      if (random.below(100) == 0) update.ids.push_back(static_cast<uint32_t>(b));
    }
    update.values.assign(from.begin(),
                         from.begin() + static_cast<int64_t>(update.ids.size()) * kBlock);
  }
  return updates;
}

void report(const Stopwatch& watch, const std::map<std::string, std::string>& beside) {
  for (const std::string& name : watch.names()) {
    std::string ratio;
    if (const auto it = beside.find(name); it != beside.end()) {
      const double other = watch.least(it->second), own = watch.least(name);
      ratio = own < other / 2 ? fmt::format(", \"{} / it\": {:.1f}", it->second, other / own)
                              : fmt::format(", \"it / {}\": {:.3f}", it->second, own / other);
    }
    fmt::print("{{\"what\": \"{}\", \"ms\": {:.2f}{}}}\n", name, 1e3 * watch.least(name), ratio);
  }
}

// Everything that one round of `passes` works on.
struct Arrays {
  explicit Arrays(int64_t elements) : gradient(static_cast<size_t>(elements)) {
    Random random(1);
    for (float& x : gradient) x = noise(random);
    residual = gradient;
    weights = gradient;
    first.assign(gradient.size(), 0.1f);
    second.assign(gradient.size(), 0.1f);
    last.assign(static_cast<size_t>(blocks_of(elements)), 0);
  }
  Floats gradient, residual, weights, first, second;
  std::vector<uint32_t> last;
};

struct FusedPass {
  Values values;
  BlockCompressor compressor;
  SelectionState state;
};

void measure_selection(Stopwatch& watch, Arrays& a, std::vector<FusedPass>& fused,
                       SelectionState& state, PackedBlocks& sent) {
  static BlockCompressor selecting({.exact_every = int64_t{1} << 40}), exact({.exact_every = 1});
  const size_t size = a.gradient.size();
  std::vector<uint32_t> ids;
  if (state.step == 0) selecting.select(a.gradient, state, ids);
  volatile uint32_t sink = 0;
  watch.measure("read only", [&] {
    sink = read_only(reinterpret_cast<const uint32_t*>(a.gradient.data()), size);
  });
  watch.measure("select", [&] { selecting.select(a.gradient, state, ids); });
  SelectionState once;
  watch.measure("select exactly", [&] { exact.select(a.gradient, once, ids); });
  watch.measure("add", [&] { add(a.gradient.data(), a.residual.data(), size); });
  for (FusedPass& pass : fused) {
    if (pass.state.step == 0) pass.compressor.compress(a.gradient, a.residual, pass.state, sent);
    watch.measure(fmt::format("fused {}", values_name(pass.values)),
                  [&] { pass.compressor.compress(a.gradient, a.residual, pass.state, sent); });
  }
  SelectionState begin;
  watch.measure("fused exactly", [&] { exact.compress(a.gradient, a.residual, begin, sent); });
  watch.measure("chunks 2bit", [&] {
    CHECK(compress_chunks({.values = Values::kTwoBit}, a.gradient, a.residual), "not finite");
  });
  watch.measure("memcpy", [&] { std::memcpy(a.residual.data(), a.gradient.data(), 4 * size); });
}

void measure_steps(Stopwatch& watch, Arrays& a, uint32_t round, const Blocks& blocks) {
  const size_t size = a.gradient.size();
  const update::SparseGradient some{blocks.ids, blocks.values};
  const update::MomentumStep momentum{.learning_rate = 1e-3};
  const update::AdamStep adam{.learning_rate = 1e-3, .step = round};
  watch.measure("dense SGD", [&] { dense_sgd(1e-3f, a.gradient.data(), a.weights.data(), size); });
  watch.measure("sparse SGD", [&] { update::sparse_sgd(1e-3, some, a.weights); });
  watch.measure("dense momentum",
                [&] { update::momentum(momentum, a.weights, a.gradient, a.first); });
  std::fill(a.last.begin(), a.last.end(), round - 1);
  watch.measure("sparse momentum", [&] {
    update::sparse_momentum(momentum, round, some, a.weights, a.first, a.last);
  });
  watch.measure("dense AdamW",
                [&] { update::adamw(adam, a.weights, a.gradient, a.first, a.second); });
  std::fill(a.last.begin(), a.last.end(), round - 1);
  watch.measure("sparse AdamW",
                [&] { update::sparse_adamw(adam, some, a.weights, a.first, a.second, a.last); });
}

int passes(int64_t elements, int rounds) {
  Arrays arrays(elements);
  std::vector<FusedPass> fused;
  for (int i = 0; i < kValuesCount; ++i) {
    const auto values = static_cast<Values>(i);
    const CompressOptions options{.values = values, .exact_every = int64_t{1} << 40};
    fused.push_back({values, BlockCompressor(options), {}});
  }
  const std::vector<Blocks> updates = four_updates(elements, arrays.gradient);
  Stopwatch watch;
  SelectionState state;
  PackedBlocks sent;
  Merged merged;
  Blocks unpacked;
  for (int round = 1; round <= rounds; ++round) {
    measure_selection(watch, arrays, fused, state, sent);
    measure_steps(watch, arrays, static_cast<uint32_t>(round), updates[0]);
    watch.measure("merge of four", [&] { merge(updates, {}, merged); });
    const PackedBlocks packed = pack(updates[0], Values::kBf16);
    std::vector<std::byte> message;
    watch.measure("encode bf16", [&] { message = encode(packed); });
    watch.measure("decode bf16", [&] {
      unpack(decode(message, elements, blocks_of(elements)).value(), unpacked);
    });
    CHECK(unpacked.ids == updates[0].ids, "changed on the way");
  }
  report(watch, {{"select", "read only"},
                 {"select exactly", "read only"},
                 {"fused bf16", "add"},
                 {"fused int8", "add"},
                 {"fused int4", "add"},
                 {"fused 2bit", "add"},
                 {"fused exactly", "add"},
                 {"chunks 2bit", "fused 2bit"},
                 {"sparse SGD", "dense SGD"},
                 {"sparse momentum", "dense momentum"},
                 {"sparse AdamW", "dense AdamW"},
                 {"merge of four", "read only"}});
  for (int i = 0; i < kValuesCount; ++i) {
    const PackedBlocks packed = pack(updates[0], static_cast<Values>(i));
    fmt::print("{{\"what\": \"bytes per element\", \"values\": \"{}\", \"bytes\": {:.4f}}}\n",
               values_name(packed.values),
               static_cast<double>(encode(packed).size()) /
                   static_cast<double>(packed.ids.size() * kBlock));
  }
  return 0;
}

// Errors of the selected count after the first 20 steps.
class CountErrors {
 public:
  void add(const Selected& done) {
    if (++step_ <= 20) return;
    const double error =
        std::fabs(static_cast<double>(done.blocks) / static_cast<double>(done.target) - 1);
    worst_ = std::max(worst_, error);
    sum_ += error;
    beyond_ += error > 0.02 ? 1 : 0;
  }
  void print(const std::string& what, double density) const {
    fmt::print(
        "{{\"gradients\": \"{}\", \"density\": {}, \"steps\": {}, \"worst\": {:.4f}, "
        "\"mean\": {:.4f}, \"beyond 2 %\": {}}}\n",
        what, density, step_, worst_, sum_ / std::max(1, step_ - 20), beyond_);
  }

 private:
  int step_ = 0, beyond_ = 0;
  double worst_ = 0, sum_ = 0;
};

using Gradients = std::function<void(int step, Random&, std::vector<float>&)>;

// noise; heavy tails; twelve layers of scales over three orders; one direction and noise; a size that
// jumps; rows that only come now and then.
std::vector<std::pair<std::string, Gradients>> distributions(int64_t elements) {
  const auto each = [](const std::function<float(size_t, Random&)>& value) {
    return [value](int, Random& random, std::vector<float>& to) {
      for (size_t i = 0; i < to.size(); ++i) to[i] = value(i, random);
    };
  };
  const double layer = static_cast<double>(elements) / 12;
  return {{"normal", each([](size_t, Random& r) { return noise(r); })},
          {"heavy tails", each([](size_t, Random& r) {
             return noise(r) / static_cast<float>(std::sqrt(-std::log(1 - r.uniform())) + 1e-6);
           })},
          {"layers", each([layer](size_t i, Random& r) {
             return noise(r) * static_cast<float>(
                                   std::pow(10.0, std::floor(static_cast<double>(i) / layer) / 4));
           })},
          {"one direction", each([](size_t i, Random& r) {
             Random own(i / 64);
             return noise(r) + static_cast<float>(own.below(5)) - 2;
           })},
          {"jumping size",
           [](int, Random& r, std::vector<float>& to) {
             const auto size = static_cast<float>(std::exp(0.3 * r.normal()));
             for (float& x : to) x = size * noise(r);
           }},
          {"rows now and then", [](int step, Random& r, std::vector<float>& to) {
             for (size_t i = 0; i < to.size(); ++i) {
               const bool comes = ((i / 1024 * 2654435761u + size_t(step) * 40503u) >> 8) % 16 == 0;
               to[i] = comes ? noise(r) : 0;
             }
           }}};
}

int count(int64_t elements, int steps) {
  for (const auto& [name, fill] : distributions(elements)) {
    Random random(7);
    std::vector<float> gradient(static_cast<size_t>(elements)), residual(gradient.size(), 0.0f);
    BlockCompressor compressor({.density = 0.01});
    SelectionState state;
    PackedBlocks sent;
    CountErrors errors;
    for (int step = 0; step < steps; ++step) {
      fill(step, random, gradient);
      errors.add(compressor.compress(gradient, residual, state, sent));
    }
    errors.print(name, 0.01);
  }
  return 0;
}

int gradients() {
  int64_t elements = 0;
  CHECK(std::fread(&elements, sizeof elements, 1, stdin) == 1, "no count on standard input");
  std::vector<float> gradient(static_cast<size_t>(elements));
  const std::vector<double> densities = {0.01, 0.05};
  std::vector<std::vector<float>> residuals(2, std::vector<float>(gradient.size(), 0.0f));
  std::vector<SelectionState> states(2);
  std::vector<CountErrors> errors(2);
  PackedBlocks sent;
  while (std::fread(gradient.data(), sizeof(float), gradient.size(), stdin) == gradient.size()) {
    for (size_t i = 0; i < 2; ++i) {
      BlockCompressor compressor({.density = densities[i]});
      errors[i].add(compressor.compress(gradient, residuals[i], states[i], sent));
    }
  }
  for (size_t i = 0; i < 2; ++i) errors[i].print("standard input", densities[i]);
  return 0;
}

// What each way of choosing catches of the squared norm at 1 %, how long it takes, and its count.
int selections(int64_t elements) {
  Random random(5);
  std::vector<float> numbers(static_cast<size_t>(elements));
  for (const std::string& name : selection_names()) {
    auto selection = make_selection(name, 0.01, 1).value();
    double least = INFINITY, caught = 0, all = 0, chosen = 0;
    for (int round = 0; round < 10; ++round) {
      Random again = random.stream(fmt::format("{}", round));
      for (float& x : numbers) x = noise(again) * noise(again);
      const double begin = cpu_seconds();
      const std::vector<uint32_t> ids = selection->select(numbers);
      least = std::min(least, cpu_seconds() - begin);
      for (const float x : numbers) all += static_cast<double>(x) * static_cast<double>(x);
      for (const uint32_t id : ids) caught += std::pow(static_cast<double>(numbers[id]), 2);
      chosen += static_cast<double>(ids.size());
    }
    fmt::print(
        "{{\"selection\": \"{}\", \"ms\": {:.2f}, \"chosen of target\": {:.3f}, \"of the "
        "squared norm\": {:.4f}}}\n",
        name, 1e3 * least, chosen / (0.1 * static_cast<double>(elements)), caught / all);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "passes";
  g_huge_pages = option(argc, argv, "pages", "") == "huge";
  use_instruction_set(option(argc, argv, "instructions", ""));
  const auto number = [&](const char* name, const char* otherwise) {
    return std::stoll(option(argc, argv, name, otherwise));
  };
  if (what == "passes") {
    return passes(number("elements", "88000000"), static_cast<int>(number("rounds", "7")));
  }
  if (what == "count") {
    return count(number("elements", "20000000"), static_cast<int>(number("steps", "60")));
  }
  if (what == "gradients") return gradients();
  if (what == "selections") return selections(number("elements", "4000000"));
  fmt::print(stderr, "unknown part \"{}\"\n  try passes, count, gradients or selections\n", what);
  return 2;
}
