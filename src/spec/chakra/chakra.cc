#include "spec/chakra/chakra.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "spec/chakra/byte_source.h"
#include "spec/chakra/chakra_binary.h"
#include "spec/chakra/chakra_json.h"
#include "spec/chakra/comm_groups.h"
#include "spec/chakra/outline.h"
#include "spec/chakra/wire.h"

namespace tombolo::chakra {
namespace {

// A frame's length has at most 5 bytes.
constexpr size_t kLengthBytes = 5;

}  // namespace

// --- Reading -------------------------------------------------------------------------------------

struct ChakraReader::State {
  State(ByteSource from, std::string file) : source(std::move(from)), name(std::move(file)) {}

  ByteSource source;
  std::string name;
  std::optional<JsonSplitter> json;  // nothing: frames
  ChakraMetadata metadata;
  ChakraNode scratch;
  uint64_t messages = 0;

  tl::unexpected<Error> wrong(std::string_view why) const {
    return unusable(fmt::format("{}: message {}: {}", name, messages, why));
  }

  // The bytes of the next message; nothing at the end. They are valid until the next call.
  Result<std::optional<std::string_view>> message() {
    if (json) {
      const Result<std::string_view> text = json->next();
      if (!text) return wrong(text.error().message);
      if (text->empty()) return std::nullopt;
      return *text;
    }
    if (!source.want(1)) {
      if (!source.problem().empty()) return wrong(source.problem());
      return std::nullopt;
    }
    source.want(kLengthBytes);
    const std::string_view seen = source.visible().substr(0, kLengthBytes);
    WireReader length(seen);
    uint64_t size = 0;
    if (!length.varint(size)) {
      return wrong(fmt::format("byte {}: {}", source.position(),
                               seen.size() < kLengthBytes ? "the file ends inside a length"
                                                          : "a length of more than 5 bytes"));
    }
    if (size > kMessageLimit) {
      return wrong(fmt::format("byte {}: a length of {} bytes; the limit is {}", source.position(),
                               size, kMessageLimit));
    }
    size_t prefix = 1;
    while (static_cast<uint8_t>(seen[prefix - 1]) & 0x80) ++prefix;
    if (!source.want(prefix + size)) {
      if (!source.problem().empty()) return wrong(source.problem());
      return wrong(fmt::format("byte {}: a length of {} bytes, but the file has {} more",
                               source.position(), size, source.visible().size() - prefix));
    }
    const std::string_view bytes = source.visible().substr(prefix, size);
    source.consume(prefix + size);
    return bytes;
  }

  Result<Value> parsed(std::string_view text) const {
    return parse_json(text, place(), /*line*/ 0);
  }
  std::string place() const { return fmt::format("{}: message {}", name, messages); }

  // Metadata, which comes first. What a "workload_graph" says of itself stands behind its nodes.
  Status begin() {
    source.want(256);
    if (source.visible().empty()) {
      return unusable(
          fmt::format("{}: {}", name, source.problem().empty() ? "is empty" : source.problem()));
    }
    if (JsonSplitter::is_json(source.visible())) json.emplace(source);
    if (json && json->begins_workload_graph()) return {};
    const auto bytes = TRY(message());
    if (!bytes) return unusable(fmt::format("{}: holds nothing", name));
    if (json) {
      metadata = TRY(metadata_from_json(TRY(parsed(*bytes)), place()));
    } else if (const std::string problem = decode(*bytes, metadata); !problem.empty()) {
      return unusable(fmt::format("{}: is no Chakra trace: its metadata: {}", name, problem),
                      "an .et file, Chakra's JSON, or either of them gzipped");
    }
    ++messages;
    return {};
  }

  Result<bool> next(ChakraNode& out) {
    const auto bytes = TRY(message());
    if (!bytes) return false;
    if (json) {
      const Value value = TRY(parsed(*bytes));
      out = TRY(json->is_workload_graph() ? node_from_workload_graph(value, place())
                                          : node_from_json(value, place()));
    } else if (const std::string problem = decode(*bytes, out); !problem.empty()) {
      return wrong(problem);
    }
    ++messages;
    return true;
  }
};

ChakraReader::ChakraReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
ChakraReader::ChakraReader(ChakraReader&&) noexcept = default;
ChakraReader::~ChakraReader() = default;

Result<ChakraReader> ChakraReader::open(const std::string& path) {
  auto state = std::make_unique<State>(TRY(ByteSource::open(path)), path);
  TRY(state->begin());
  return ChakraReader(std::move(state));
}

Result<ChakraReader> ChakraReader::over(std::string_view bytes, const std::string& name) {
  auto state = std::make_unique<State>(ByteSource::over(bytes), name);
  TRY(state->begin());
  return ChakraReader(std::move(state));
}

const ChakraMetadata& ChakraReader::metadata() const { return state_->metadata; }
const std::string& ChakraReader::name() const { return state_->name; }

Result<bool> ChakraReader::next(ChakraNode& message) { return state_->next(message); }

Result<std::optional<graph::Node>> ChakraReader::next(bool keep_tensors) {
  if (!TRY(state_->next(state_->scratch))) return std::nullopt;
  Result<graph::Node> node = to_node(state_->scratch, keep_tensors);
  if (!node) {
    Error error = std::move(node).error();
    error.message = state_->name + ": " + error.message;
    return fail(std::move(error));
  }
  return std::move(*node);
}

namespace {

void drop(graph::Node& node, int64_t dependency) {
  std::erase(node.data_deps, dependency);
  std::erase(node.ctrl_deps, dependency);
}

Result<graph::Graph> read_all(ChakraReader reader, const ChakraReadOptions& options) {
  CHECK(options.rank >= 0, "{} is the trace of rank {}", reader.name(), options.rank);
  graph::Graph graph{options.rank, {}};
  for (;;) {
    auto node = TRY(reader.next(options.keep_tensors));
    if (!node) break;
    graph.nodes.push_back(std::move(*node));
  }
  const auto by_id = [](const graph::Node& a, const graph::Node& b) { return a.id < b.id; };
  if (!std::is_sorted(graph.nodes.begin(), graph.nodes.end(), by_id)) {
    std::stable_sort(graph.nodes.begin(), graph.nodes.end(), by_id);
  }
  Outline outline;
  for (const graph::Node& node : graph.nodes) outline.add(node);
  const Outline::Verdict verdict = TRY(examine(outline, reader.name(), options.repair));
  for (const Outline::BadEdge& edge : verdict.bad) {
    const auto at =
        std::lower_bound(graph.nodes.begin(), graph.nodes.end(), edge.node,
                         [](const graph::Node& node, int64_t id) { return node.id < id; });
    drop(*at, edge.dependency);
    if (options.repaired) options.repaired->push_back(to_text(edge));
  }
  return graph;
}

}  // namespace

Result<Outline::Verdict> examine(Outline& outline, const std::string& name, bool repair) {
  auto verdict = outline.examine();
  if (!verdict) {
    Error error = std::move(verdict).error();
    error.message = name + ": " + error.message;
    return fail(std::move(error));
  }
  if (repair || verdict->bad.empty()) return verdict;
  // A missing dependency is reported before a cycle, which may be its consequence.
  const Outline::BadEdge& worst =
      *std::min_element(verdict->bad.begin(), verdict->bad.end(),
                        [](const auto& a, const auto& b) { return a.fault < b.fault; });
  std::string text = to_text(worst);
  if (worst.fault == Outline::Fault::kCycle) {
    constexpr size_t kShown = 8;
    text = "nodes wait for each other: ";
    for (size_t i = 0; i < std::min(kShown, verdict->cycle.size()); ++i) {
      text += fmt::format("{} -> ", verdict->cycle[i]);
    }
    if (verdict->cycle.size() > kShown) {
      text += fmt::format("{} more -> ", verdict->cycle.size() - kShown);
    }
    text += fmt::format("{}", verdict->cycle[0]);
  }
  if (verdict->bad.size() > 1) {
    text += fmt::format(" (and {} more edges that cannot be)", verdict->bad.size() - 1);
  }
  return unusable(fmt::format("{}: {}", name, text),
                  "tombolo convert --repair, which drops such edges and lists them");
}

Result<graph::Graph> read_chakra(const std::string& path, const ChakraReadOptions& options) {
  return read_all(TRY(ChakraReader::open(path)), options);
}

Result<graph::Graph> parse_chakra(std::string_view bytes, const std::string& name,
                                  const ChakraReadOptions& options) {
  return read_all(TRY(ChakraReader::over(bytes, name)), options);
}

// --- Writing -------------------------------------------------------------------------------------

struct ChakraWriter::State {
  AtomicFile file;
  ChakraForm form;
  std::string path;
  std::string pending = {};
  std::string message = {};
  bool committed = false;

  template <typename Message>
  Status put(const Message& what) {
    CHECK(!committed, "a message for {}, which is committed", path);
    if (form == ChakraForm::kJson) {
      Result<std::string> line = to_json_line(what);
      if (!line) return fail(std::move(line).error().during("writing " + path));
      pending += *line;
    } else {
      message.clear();
      encode(what, message);
      if (message.size() > kMessageLimit) {
        return unusable(fmt::format("{}: a message of {} bytes; the limit is {}", path,
                                    message.size(), kMessageLimit));
      }
      append_varint(pending, message.size());
      pending += message;
    }
    return pending.size() < (size_t{1} << 18) ? Status() : flush();
  }
  Status flush() {
    TRY(file.write(pending));
    pending.clear();
    return {};
  }
};

ChakraWriter::ChakraWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
ChakraWriter::ChakraWriter(ChakraWriter&&) noexcept = default;
ChakraWriter::~ChakraWriter() = default;

Result<ChakraWriter> ChakraWriter::create(const std::string& path, const ChakraMetadata& metadata,
                                          ChakraForm form) {
  auto state = std::unique_ptr<State>(new State{TRY(AtomicFile::create(path)), form, path});
  TRY(state->put(metadata));
  return ChakraWriter(std::move(state));
}

Status ChakraWriter::write(const ChakraNode& message) { return state_->put(message); }
Status ChakraWriter::write(const graph::Node& node, int32_t rank) {
  return state_->put(to_message(node, rank));
}
Status ChakraWriter::commit() {
  state_->committed = true;
  TRY(state_->flush());
  return state_->file.commit();
}

ChakraMetadata our_metadata() { return {"0.0.4", {}}; }

Result<CommGroups> write_chakra(const std::string& prefix, const graph::Graphs& graphs) {
  std::map<std::vector<int32_t>, std::string> names;
  CommGroups groups;
  for (size_t r = 0; r < graphs.size(); ++r) {
    const graph::Graph& graph = graphs[r];
    CHECK(graph.rank == static_cast<int32_t>(r), "graph {} is of rank {}", r, graph.rank);
    const std::string path = fmt::format("{}.{}.et", prefix, graph.rank);
    ChakraWriter writer = TRY(ChakraWriter::create(path, our_metadata()));
    for (const graph::Node& node : graph.nodes) {
      const bool named = node.comm_group.empty() || node.comm_group.size() == graphs.size() ||
                         !node.details->pg_name.empty();
      if (named) {
        TRY(writer.write(node, graph.rank));
        continue;
      }
      const auto [entry, fresh] =
          names.emplace(node.comm_group, fmt::format("{}", names.size() + 1));
      if (fresh) groups.emplace(entry->second, node.comm_group);
      graph::Node copy = node;
      copy.details.edit().pg_name = entry->second;
      TRY(writer.write(copy, graph.rank));
    }
    TRY(writer.commit());
  }
  return groups;
}

}  // namespace tombolo::chakra
