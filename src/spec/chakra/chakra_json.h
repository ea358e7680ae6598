// Chakra's messages as JSON, in the two dialects that exist.
//
// The first is protobuf's own, as chakra_jsonizer writes it: objects one after another, metadata
// first, 64-bit integers as text. It says all that the binary form says, and is what we write, an
// object per line. The second is what Chakra's feeder reads: {"workload_graph": [{"Id": 1, "Name":
// ..., "NodeType": 4, "ctrlDeps": [], "data_deps": [], "runtime": 318, "is_cpu_op": true, ...}]}.
//
// Reference: mlcommons/chakra, src/jsonizer and src/feeder; protobuf.dev, "ProtoJSON Format".
#pragma once

#include <string>
#include <string_view>

#include "base/value.h"
#include "spec/chakra/byte_source.h"
#include "spec/chakra/chakra_message.h"

namespace tombolo::chakra {

// Cuts JSON into its messages without reading more than one ahead.
class JsonSplitter {
 public:
  // Whether a file that begins like this is JSON.
  static bool is_json(std::string_view beginning);

  explicit JsonSplitter(ByteSource& source) : source_(source) {}

  // The text of the next object, valid until the next call; empty at the end. Error messages are
  // clauses without the file's name.
  Result<std::string_view> next();
  // Whether what comes are nodes of a "workload_graph". Asked before the first next(), whose list
  // it enters.
  bool begins_workload_graph();
  bool is_workload_graph() const { return in_graph_; }

 private:
  Result<std::string_view> object();
  bool skip(std::string_view characters);

  ByteSource& source_;
  bool in_graph_ = false;
  bool ended_ = false;
};

// From one object. `place` stands in messages: "trace.json: message 3".
Result<ChakraMetadata> metadata_from_json(const Value& value, const std::string& place);
Result<ChakraNode> node_from_json(const Value& value, const std::string& place);
Result<ChakraNode> node_from_workload_graph(const Value& value, const std::string& place);

// One line each, with its end. Unusable where a text is not UTF-8, which JSON has to be.
Result<std::string> to_json_line(const ChakraMetadata& metadata);
Result<std::string> to_json_line(const ChakraNode& node);

// How bytes stand in JSON (RFC 4648, section 4).
inline constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace tombolo::chakra
