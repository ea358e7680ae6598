#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "predict/workload/workload.h"
#include "spec/chakra/chakra.h"
#include "spec/chakra/pytorch.h"
#include "spec/chakra/retarget.h"
#include "spec/chakra/statistics.h"
#include "spec/schedule/schedule.h"
#include "ui/predict_commands/predict_commands.h"

namespace tombolo::predict_commands {
namespace {

using chakra::ChakraMetadata;
using chakra::ChakraNode;
using chakra::Outline;

// The messages of an input, from the first on whenever they are asked for.
using Visit = std::function<Status(ChakraNode&)>;
struct Input {
  ChakraMetadata metadata;
  std::function<Status(const Visit&)> each;
};

Result<Input> chakra_input(const std::string& path) {
  Input input;
  input.metadata = TRY(chakra::ChakraReader::open(path)).metadata();
  input.each = [path](const Visit& visit) -> Status {
    chakra::ChakraReader reader = TRY(chakra::ChakraReader::open(path));
    ChakraNode message;
    while (TRY(reader.next(message))) TRY(visit(message));
    return {};
  };
  return input;
}

Result<Input> pytorch_input(const ConvertOptions& options) {
  auto trace = std::make_shared<chakra::PytorchTrace>(
      TRY(chakra::read_pytorch(options.input, options.kineto)));
  for (const std::string& note : trace->notes) std::cerr << "note: " << note << "\n";
  Input input;
  input.metadata = trace->metadata;
  input.each = [trace](const Visit& visit) -> Status {
    for (ChakraNode message : trace->nodes) TRY(visit(message));
    return {};
  };
  return input;
}

Result<graph::Node> node_of(const ChakraNode& message, const std::string& file) {
  auto node = chakra::to_node(message);
  if (node) return node;
  Error error = std::move(node).error();
  error.message = file + ": " + error.message;
  return fail(std::move(error));
}

Status statistics(const Input& input, const ConvertOptions& options, std::ostream& out) {
  chakra::StatisticsBuilder builder;
  TRY(input.each([&](ChakraNode& message) -> Status {
    builder.add(TRY(node_of(message, options.input)));
    return {};
  }));
  const chakra::Statistics found = TRY(builder.finish(options.input));
  const std::string text = options.json ? to_json(found.to_value()) + "\n" : found.full();
  if (!options.out.empty()) return write_file(options.out, text);
  out << text;
  return {};
}

// Edges that have to go, by node and dependency.
using Drops = std::vector<Outline::BadEdge>;

Result<Drops> examine(const Input& input, const ConvertOptions& options) {
  Outline outline;
  TRY(input.each([&](ChakraNode& message) -> Status {
    outline.add(TRY(node_of(message, options.input)));
    return {};
  }));
  return TRY(chakra::examine(outline, options.input, options.repair)).bad;
}

void drop(const Drops& drops, ChakraNode& message) {
  const auto id = static_cast<int64_t>(message.id);
  auto at = std::lower_bound(drops.begin(), drops.end(), id,
                             [](const auto& edge, int64_t node) { return edge.node < node; });
  for (; at != drops.end() && at->node == id; ++at) {
    std::erase(message.ctrl_deps, static_cast<uint64_t>(at->dependency));
    std::erase(message.data_deps, static_cast<uint64_t>(at->dependency));
  }
}

Status write_dot(const Input& input, const Drops& drops, const ConvertOptions& options,
                 const std::function<Status(std::string_view)>& put) {
  TRY(put(chakra::dot_begin(options.input)));
  TRY(input.each([&](ChakraNode& message) -> Status {
    drop(drops, message);
    return put(chakra::dot_lines(TRY(node_of(message, options.input))));
  }));
  return put(chakra::dot_end());
}

}  // namespace

Status convert_chakra(const ConvertOptions& options, chakra::TraceFormat format,
                      std::ostream& out) {
  const bool pytorch = format == chakra::TraceFormat::kPytorch;
  if (!pytorch && !options.kineto.empty()) {
    return unusable(
        fmt::format("{}: --kineto goes with an execution trace of PyTorch", options.input));
  }
  const Input input = TRY(pytorch ? pytorch_input(options) : chakra_input(options.input));
  if (options.to == "statistics") return statistics(input, options, out);

  const Drops drops = TRY(examine(input, options));
  // If the answer goes to stdout, the list goes to stderr.
  std::ostream& list = options.out.empty() ? std::cerr : out;
  if (!drops.empty()) list << "dropped " << drops.size() << " edges\n";
  for (const Outline::BadEdge& edge : drops) list << "  " << chakra::to_text(edge) << "\n";

  if (options.to == "dot" && options.out.empty()) {
    return write_dot(input, drops, options, [&](std::string_view text) -> Status {
      out << text;
      return {};
    });
  }
  if (options.to == "dot") {
    AtomicFile file = TRY(AtomicFile::create(options.out));
    TRY(write_dot(input, drops, options, [&](std::string_view text) { return file.write(text); }));
    return file.commit();
  }
  const auto form =
      options.to == "chakra" ? chakra::ChakraForm::kProtobuf : chakra::ChakraForm::kJson;
  chakra::ChakraWriter writer =
      TRY(chakra::ChakraWriter::create(options.out, input.metadata, form));
  TRY(input.each([&](ChakraNode& message) -> Status {
    drop(drops, message);
    return writer.write(message);
  }));
  return writer.commit();
}

Status write_plan_as_chakra(const plan::Plan& plan, const ConvertOptions& options,
                            std::ostream& out) {
  CHECK(!options.out.empty(), "no prefix for the files of {} ranks", plan.ranks.size());
  const schedule::Schedule schedule = TRY(schedule::build(plan));
  const graph::Graphs graphs = schedule::to_graph(plan, schedule);
  const chakra::CommGroups groups = TRY(chakra::write_chakra(options.out, graphs));
  out << fmt::format("{}.0.et to {}.{}.et\n", options.out, options.out, graphs.size() - 1);
  if (groups.empty()) return {};
  out << options.out << ".groups.json\n";
  return write_file(options.out + ".groups.json", chakra::to_json_text(groups));
}

namespace {

// Rank by rank, so that one graph is held.
Status write_ranks(const std::string& prefix, int32_t ranks,
                   const std::function<graph::Graph(int32_t)>& graph_of,
                   const chakra::CommGroups& groups, std::ostream& out) {
  CHECK(!prefix.empty(), "no prefix for the files of {} ranks", ranks);
  for (int32_t rank = 0; rank < ranks; ++rank) {
    chakra::ChakraWriter writer = TRY(chakra::ChakraWriter::create(
        fmt::format("{}.{}.et", prefix, rank), chakra::our_metadata()));
    const graph::Graph graph = graph_of(rank);
    for (const graph::Node& node : graph.nodes) TRY(writer.write(node, rank));
    TRY(writer.commit());
  }
  out << fmt::format("{}.0.et to {}.{}.et\n", prefix, prefix, ranks - 1);
  if (groups.empty()) return {};
  out << prefix << ".groups.json\n";
  return write_file(prefix + ".groups.json", chakra::to_json_text(groups));
}

}  // namespace

Status write_job_as_chakra(const plan::Job& job, const ConvertOptions& options, std::ostream& out) {
  const auto granularity = options.granularity == "stage" ? workload::Granularity::kStage
                                                          : workload::Granularity::kLayer;
  const workload::Workload workload = TRY(workload::Workload::make(
      job, {.granularity = granularity, .remote_parameters = options.remote_parameters}));
  for (const std::string& note : workload.notes()) std::cerr << "note: " << note << "\n";
  return write_ranks(
      options.out, workload.ranks(), [&](int32_t rank) { return workload.graph(rank, false); },
      workload.groups(), out);
}

Status convert_retargeted(const ConvertOptions& options, std::ostream& out) {
  CHECK(options.retarget, "{}: retargeted to no number of ranks", options.input);
  if (options.to != "chakra") {
    return unusable(fmt::format("--retarget goes with --to chakra, not --to {}", options.to));
  }
  chakra::TracedRun run = TRY(chakra::read_run(options.input, options.comm_groups));
  const chakra::Retarget retarget =
      TRY(during(chakra::Retarget::make(std::move(run.graphs), run.groups,
                                        {*options.retarget, options.data_groups}),
                 "reading " + options.input + ".*.et"));
  std::cerr << "note: " << retarget.brief() << "\n";
  return write_ranks(
      options.out, retarget.ranks(), [&](int32_t rank) { return retarget.graph(rank); },
      retarget.groups(), out);
}

}  // namespace tombolo::predict_commands
