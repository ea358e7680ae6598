// Does a pair of strands take as long as was predicted, when links are slow and one thread computes?
//
//   strand_gain_bench [--share 0.4] [--repeats 15] [--layers 1] [--models dense]
//
// For three small models (with `--models more` for a mixture of experts, half of which another rank would have, and for
// layers whose activations are computed again): a layer of one microbatch forward and of another backward, operator by operator, on one
// thread that computes and a link that is paced: a collective copies its bytes and then sleeps until bytes / rate are
// over; exchanges of experts have a link of their own, as fast. The rate is such that collectives take `share` of a block in which nothing overlaps. Ways take turns: one after
// the other (twice, for the noise), what frameworks overlap by themselves, and the plan that `tombolo strand` would
// make from the operators' times. Figures are medians; of each run where nothing overlaps the operators' times give a
// prediction, by the code of that command. Also: what performing operators one by one costs, without a link, in
// CPU time, as a share of the module in one graph.
//
// Checked: gradients of a pair have the bits of one after the other. One JSON line per model.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "perform/train/kept_memory.h"
#include "perform/train/stage_module.h"
#include "perform/train/strand_layers.h"
#include "predict/strand/layer_strands.h"
#include "predict/strand/round_robin.h"
#include "predict/strand/stream_search.h"

using namespace tombolo;
using namespace tombolo::train;
using SteadyClock = std::chrono::steady_clock;

namespace {

struct Options {
  double share = 0.4;
  int repeats = 15;
  size_t layers = 1;
  bool more = false;
};

struct Candidate {
  const char* name;
  model::Model model;
  int64_t samples;
  bool again = false;
};

std::vector<Candidate> candidates(int64_t layers, bool more) {
  model::Model llama{.name = "llama",
                     .layers = layers,
                     .hidden = 512,
                     .heads = 8,
                     .kv_heads = 4,
                     .ffn = 1408,
                     .vocabulary = 64,
                     .sequence = 256};
  model::Model gpt2 = llama;
  gpt2.hidden = 384;
  gpt2.kv_heads = 8;
  gpt2.ffn = 1536;
  gpt2.norm = model::Norm::kLayer;
  gpt2.activation = model::Activation::kGelu;
  gpt2.positions = model::Positions::kLearned;
  gpt2.bias = true;
  model::Model qwen3 = llama;
  qwen3.hidden = 256;
  qwen3.ffn = 768;
  qwen3.head_dim = 64;
  qwen3.qk_norm = true;
  qwen3.sequence = 512;
  if (!more) return {{"llama", llama, 2}, {"gpt2", gpt2, 2}, {"qwen3", qwen3, 1}};
  model::Model mixture = llama;
  mixture.experts = model::Experts{.count = 8, .per_token = 2, .ffn = 704};
  return {{"mixture", mixture, 2}, {"again", llama, 2, true}, {"both", mixture, 2, true}};
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Half of the distance between the quartiles.
double spread(std::vector<double> values) {
  std::ranges::sort(values);
  return (values[values.size() * 3 / 4] - values[values.size() / 4]) / 2;
}

double seconds_since(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

struct Link {
  size_t bytes = 0;
  double rate = 0;  // bytes per second; 0: no link
  std::vector<char> from = std::vector<char>(bytes), to = std::vector<char>(bytes);

  double seconds() const { return rate > 0 ? static_cast<double>(bytes) / rate : 0; }
  void carry() {
    const SteadyClock::time_point begin = SteadyClock::now();
    std::memcpy(to.data(), from.data(), bytes);
    std::this_thread::sleep_until(begin + std::chrono::duration_cast<SteadyClock::duration>(
                                              std::chrono::duration<double>(seconds())));
  }
};

// Of one run of a block: the whole, and each operator.
struct Run {
  double seconds = 0;
  std::vector<double> operators;
};

// Two microbatches that take turns: one goes forward while the other, which went forward before, goes backward.
class Block {
 public:
  Block(const Candidate& what, const Options& options, Meeting meeting)
      : exchange_(what.model.experts
                      ? std::make_unique<ExpertExchange>(what.model.experts->count, 2, 0)
                      : nullptr),
        module_(*StageModule::create(what.model,
                                     {0, static_cast<int64_t>(options.layers), false, false}, 1,
                                     at::kFloat, exchange_.get())),
        meeting_(meeting),
        again_(what.again),
        x_(at::sin(at::arange(what.samples * what.model.sequence * what.model.hidden, at::kFloat))
               .view({-1, what.model.hidden})),
        links_{Link{.bytes = x_.nbytes()}, Link{.bytes = x_.nbytes()}} {
    for (auto& microbatch : passes_) {
      for (size_t layer = 0; layer < options.layers; ++layer) {
        owned_.push_back(
            std::make_unique<LayerPass>(module_, layer, LayerPassOptions{.again = what.again}));
        microbatch.push_back(owned_.back().get());
      }
    }
    forget();
  }

  // Gradients are zero, and microbatch 1 has gone forward.
  void forget() {
    for (Parameter& each : module_.parameters())
      each.value.mutable_grad() = at::zeros_like(each.value).detach();
    turn_ = 0;
    passes_[1].front()->begin(x_);
    const auto operators = operators_of({passes_[1], {}, meeting_});
    executor_.run(operators, order_of(operators, Way::kOneAfterOther));
  }

  std::vector<StrandOperator> operators() {
    std::vector<LayerPass*>& there = passes_[1 - turn_];
    backward_.assign(there.rbegin(), there.rend());
    std::vector<StrandOperator> out = operators_of({passes_[turn_], backward_, meeting_});
    for (StrandOperator& op : out) {
      if (op.stream == Stream::kCompute) continue;
      op.work = [&link = links_[op.stream == Stream::kLocal ? 0 : 1], work = op.work] {
        work();
        link.carry();
      };
    }
    return out;
  }

  Run run(const StrandOrder& order) {
    const std::vector<StrandOperator> all = operators();
    passes_[turn_].front()->begin(x_);
    backward_.front()->begin_backward(x_);
    const SteadyClock::time_point begin = SteadyClock::now();
    const auto times = executor_.run(all, order);
    Run out{.seconds = seconds_since(begin)};
    for (const OperatorTime& each : times)
      out.operators.push_back(std::chrono::duration<double>(each.end - each.start).count());
    turn_ = 1 - turn_;
    return out;
  }

  // The same in one graph, without a link.
  void run_in_one_graph() {
    WeightGradients gradients;
    const at::Tensor x = x_.detach().set_requires_grad(true);
    if (again_) {
      const at::NoGradGuard no_gradients;
      module_.forward(x);
    }
    const at::Tensor out = module_.forward(x, &gradients);
    torch::autograd::backward({out}, {x_});
  }

  std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> out;
    for (const Parameter& each : module_.parameters()) out.push_back(each.value.grad().clone());
    return out;
  }
  const Link& link() const { return links_[0]; }
  void set_rate(double rate) {
    for (Link& link : links_) link.rate = rate;
  }
  LayerForm form() const {
    LayerForm form = passes_[0].front()->form();
    form.meeting = meeting_;
    return form;
  }

 private:
  const std::unique_ptr<ExpertExchange> exchange_;
  StageModule module_;
  const Meeting meeting_;
  const bool again_;
  const at::Tensor x_;
  Link links_[2];
  std::vector<std::unique_ptr<LayerPass>> owned_;
  std::vector<LayerPass*> passes_[2], backward_;
  int turn_ = 0;
  StrandExecutor executor_;
};

// What was performed as what is planned, with the times that operators took. Transfers that sleep slow nothing down.
strand::StrandPair pair_of(const LayerForm& form, const std::vector<StrandOperator>& operators,
                           const std::vector<double>& seconds, size_t layers) {
  cost::LayerOperators times{.all_again = form.again};
  if (form.experts) times.experts = 1;
  strand::LayerStrands planned = strand::layer_strands({.tensor = true,
                                                        .sequence_parallel = true,
                                                        .exchange = form.exchange,
                                                        .as_trained = true,
                                                        .expert_stream = strand::Stream::kCross},
                                                       times);
  if (layers > 1) {
    planned.forward = strand::chain(planned.forward, layers);
    planned.backward = strand::chain(planned.backward, layers);
  }
  const size_t forwards = planned.forward.size();
  CHECK(operators.size() == forwards + planned.backward.size(), "other operators");
  for (size_t i = 0; i < operators.size(); ++i) {
    strand::Dag& dag = i < forwards ? planned.forward : planned.backward;
    const size_t number = i < forwards ? i : i - forwards;
    CHECK(dag[number].name == operators[i].name, "{} is no {}", dag[number].name,
          operators[i].name);
    dag.set_seconds(number, seconds[i]);
    dag.set_no_sm(number, strand::is_communication(dag[number].kind));
  }
  return {planned.forward, planned.backward, strand::OverlapTable()};
}

// In the plan's order, to the letter, as the executor has it.
double in_order_seconds(const strand::StrandPair& pair, const strand::StreamSchedule& plan) {
  std::vector<double> ranks(pair.size());
  for (size_t at = 0; at < plan.runs.size(); ++at)
    ranks[plan.runs[at].op] = static_cast<double>(at);
  return strand::co_run(pair, pair.all(),
                        {.rank = ranks, .discipline = strand::Discipline::kInOrder});
}

std::vector<double> medians_by_operator(const std::vector<Run>& runs) {
  std::vector<double> out;
  for (size_t op = 0; op < runs.front().operators.size(); ++op) {
    std::vector<double> values;
    for (const Run& run : runs) values.push_back(run.operators[op]);
    out.push_back(median(values));
  }
  return out;
}

double median_seconds(const std::vector<Run>& runs) {
  std::vector<double> values;
  for (const Run& run : runs) values.push_back(run.seconds);
  return median(values);
}

void expect_same_bits(Block& block, const StrandOrder& alone, const StrandOrder& planned) {
  std::vector<at::Tensor> first;
  for (const StrandOrder* order : {&alone, &planned}) {
    block.forget();
    for (int run = 0; run < 2; ++run) block.run(*order);
    if (first.empty()) {
      first = block.gradients();
      continue;
    }
    const std::vector<at::Tensor> second = block.gradients();
    for (size_t i = 0; i < first.size(); ++i)
      CHECK(at::equal(first[i], second[i]), "gradient {} has other bits", i);
  }
}

// Of this thread, which a busy neighbour disturbs little.
double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Without a link, in turns with the module in one graph: the share of its CPU time.
double cost_of_operators(const Candidate& what, const Options& options) {
  Block block(what, options, Meeting::kNone);
  const StrandOrder order = order_of(block.operators(), Way::kOneAfterOther);
  std::vector<double> graph, operators;
  for (int repeat = 0; repeat < options.repeats + 2; ++repeat) {
    const double begin = cpu_seconds();
    block.run_in_one_graph();
    const double between = cpu_seconds();
    block.run(order);
    const double end = cpu_seconds();
    if (repeat < 2) continue;
    graph.push_back(between - begin);
    operators.push_back(end - between);
  }
  return median(operators) / median(graph);
}

void measure(const Candidate& what, const Options& options) {
  Block block(what, options, Meeting::kRows);
  const std::vector<StrandOperator> operators = block.operators();
  const StrandOrder alone = order_of(operators, Way::kOneAfterOther);
  const StrandOrder intra = order_of(operators, Way::kIntraBatch);
  const StrandOrder turn = order_of(operators, Way::kInTurn);
  const auto links = std::ranges::count_if(
      operators, [](const StrandOperator& op) { return op.stream != Stream::kCompute; });

  // The link's rate from what computation takes, then the plan from both.
  std::vector<Run> runs;
  for (int repeat = 0; repeat < 7; ++repeat) runs.push_back(block.run(alone));
  const double computes = median_seconds({runs.begin() + 2, runs.end()});
  block.set_rate(static_cast<double>(block.link().bytes) /
                 (computes * options.share / (1 - options.share) / static_cast<double>(links)));
  runs.clear();
  for (int repeat = 0; repeat < 5; ++repeat) runs.push_back(block.run(alone));
  const LayerForm form = block.form();
  const strand::StrandPair first =
      pair_of(form, operators, medians_by_operator(runs), options.layers);
  const strand::StreamSchedule plan =
      strand::search_streams(first, strand::search_segments(first, {}), 20'000);
  std::vector<std::string> names;
  for (const strand::OperatorRun& run : plan.runs) names.push_back(operators[run.op].name);
  const auto planned = order_of(operators, names);
  CHECK(planned, "{}", planned.error().text());
  expect_same_bits(block, alone, *planned);

  enum { kAlone, kAgain, kIntra, kTurn, kPair, kWays };
  const StrandOrder* orders[kWays] = {&alone, &alone, &intra, &turn, &*planned};
  std::vector<Run> by_way[kWays];
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    for (int turn = 0; turn < kWays; ++turn) {
      const int way = (turn + repeat) % kWays;
      by_way[way].push_back(block.run(*orders[way]));
    }
  }
  std::vector<Run> both = by_way[kAlone];
  both.insert(both.end(), by_way[kAgain].begin(), by_way[kAgain].end());
  // Of each of them a prediction: whatever else a machine does lengthens operators, and blocks, now and then.
  std::vector<double> share, one_by_one, of_stack, in_turn, in_pairs;
  for (const Run& run : both) {
    const strand::StrandPair pair = pair_of(form, operators, run.operators, options.layers);
    share.push_back(pair.communication() / pair.seconds());
    one_by_one.push_back(1e3 * pair.seconds());
    in_turn.push_back(1e3 * strand::in_turn_seconds(pair));
    of_stack.push_back(1e3 *
                       (strand::strand_seconds(pair, true) + strand::strand_seconds(pair, false)));
    in_pairs.push_back(1e3 * in_order_seconds(pair, plan));
  }
  std::vector<double> values;
  for (const Run& run : both) values.push_back(run.seconds);

  fmt::print(
      "{{\"model\": \"{}\", \"layers\": {}, \"link_MBps\": {:.1f}, \"share\": {:.3f}, "
      "\"alone_ms\": {:.3f}, \"again_ms\": {:.3f}, \"spread_ms\": {:.3f}, \"intra_ms\": {:.3f}, "
      "\"turn_ms\": {:.3f}, \"predicted_turn_ms\": {:.3f}, \"pair_ms\": {:.3f}, "
      "\"predicted_alone_ms\": {:.3f}, \"predicted_intra_ms\": {:.3f}, "
      "\"predicted_pair_ms\": {:.3f}, \"operators_of_graph\": {:.3f}}}\n",
      what.name, options.layers, block.link().rate / 1e6, median(share),
      1e3 * median_seconds(by_way[kAlone]), 1e3 * median_seconds(by_way[kAgain]),
      1e3 * spread(values), 1e3 * median_seconds(by_way[kIntra]),
      1e3 * median_seconds(by_way[kTurn]), median(in_turn), 1e3 * median_seconds(by_way[kPair]),
      median(one_by_one), median(of_stack), median(in_pairs), cost_of_operators(what, options));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string key = argv[i];
    if (key == "--share") options.share = std::stod(argv[i + 1]);
    if (key == "--repeats") options.repeats = std::stoi(argv[i + 1]);
    if (key == "--layers") options.layers = std::stoul(argv[i + 1]);
    if (key == "--models") options.more = std::string(argv[i + 1]) == "more";
  }
  at::set_num_threads(1);
  keep_freed_memory(1_GiB);
  for (const Candidate& each : candidates(static_cast<int64_t>(options.layers), options.more))
    measure(each, options);
}
