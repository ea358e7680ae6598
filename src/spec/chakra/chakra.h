// Chakra execution traces: one file per rank, as PyTorch's tracer, ASTRA-sim and others write them.
//
// A file is a run of frames, each a length and a protobuf message: metadata first, then nodes in
// any order. It may also be JSON (chakra_json.h); which of the two shows in its first byte. Reading
// streams: memory holds one message, and no length is believed before its bytes have come.
//
// Encoding byte by byte: docs/formats/chakra.md. Reference: mlcommons/chakra, et_def.proto.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "spec/chakra/chakra_message.h"
#include "spec/chakra/comm_groups.h"
#include "spec/chakra/outline.h"
#include "spec/graph/graph.h"

namespace tombolo::chakra {

// Reads message by message. Errors are unusable() and name file and node.
class ChakraReader {
 public:
  static Result<ChakraReader> open(const std::string& path);
  // The same from bytes in memory, which must outlive the reader; `name` stands in messages.
  static Result<ChakraReader> over(std::string_view bytes, const std::string& name);
  ChakraReader(ChakraReader&&) noexcept;
  ~ChakraReader();

  // Of the file's first message; valid from the start.
  const ChakraMetadata& metadata() const;
  const std::string& name() const;  // of the file

  // The next node, or nothing at the end. `keep_tensors` keeps the inputs and outputs of all nodes,
  // not only of METADATA nodes.
  Result<std::optional<graph::Node>> next(bool keep_tensors = false);

  // The next node with all that the file says of it, into a message that is used again and again;
  // false at the end.
  Result<bool> next(ChakraNode& message);

 private:
  struct State;
  explicit ChakraReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

struct ChakraReadOptions {
  int32_t rank = 0;           // goes into Graph::rank: files do not say it
  bool keep_tensors = false;  // inputs and outputs of every node
  // Drop invalid edges (Outline::Verdict::bad) instead of refusing the file.
  bool repair = false;
  std::vector<std::string>* repaired = nullptr;  // a line per dropped edge; may be left out
};

// The whole file, nodes sorted by id. Unusable, naming file, node and reason: what cannot be
// decoded, a duplicate id, and (unless repaired) a dependency that is missing, on itself or on a
// cycle. Cost: O(edges + n log n).
Result<graph::Graph> read_chakra(const std::string& path, const ChakraReadOptions& options = {});
Result<graph::Graph> parse_chakra(std::string_view bytes, const std::string& name,
                                  const ChakraReadOptions& options = {});

// outline.examine() for a file of that name: unless repaired, unusable() if an edge is bad.
Result<Outline::Verdict> examine(Outline& outline, const std::string& name, bool repair);

enum class ChakraForm { kProtobuf, kJson };

// Writes a file that appears when it is whole, message by message: metadata first.
class ChakraWriter {
 public:
  static Result<ChakraWriter> create(const std::string& path, const ChakraMetadata& metadata,
                                     ChakraForm form = ChakraForm::kProtobuf);
  ChakraWriter(ChakraWriter&&) noexcept;
  ~ChakraWriter();

  Status write(const ChakraNode& message);
  Status write(const graph::Node& node, int32_t rank);
  Status commit();  // without it there is no file

 private:
  struct State;
  explicit ChakraWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Of the files that we make: the version of the schema.
ChakraMetadata our_metadata();

// One file PREFIX.RANK.et per graph. Groups of ranks (Node::comm_group) get numbers as names, but
// for the group of all ranks, which has none; what comes back says which ranks each name means.
Result<CommGroups> write_chakra(const std::string& prefix, const graph::Graphs& graphs);

// Which sort of file is this? Told by its first bytes, never by its name.
enum class TraceFormat {
  kChakra,   // protobuf or JSON, gzipped or not
  kPytorch,  // an execution trace of PyTorch, JSON that begins with its schema
  kOther,    // a job, a Plan, a Trace, ...
};

TraceFormat format_of(std::string_view beginning);
Result<TraceFormat> read_format(const std::string& path);  // unusable() if it cannot be read

}  // namespace tombolo::chakra
