// Chakra's messages, with all that a file may say: what a Node leaves out stays here, so that a
// file converted to JSON and back is the same file.
//
// Reference: mlcommons/chakra, et_def.proto: GlobalMetadata, Node, IOInfo, AttributeProto.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "spec/graph/graph.h"

namespace tombolo::chakra {

// The kinds of an attribute's value in the order of their field numbers: a scalar of kind k is
// field 2k + 3, a list of it 2k + 4.
enum class AttributeKind : uint8_t {
  kDouble,
  kFloat,
  kInt32,
  kInt64,
  kUint32,
  kUint64,
  kSint32,
  kSint64,
  kFixed32,
  kFixed64,
  kSfixed32,
  kSfixed64,
  kBool,
  kString,
  kBytes,
};
constexpr auto enum_names(AttributeKind) {
  return std::to_array<EnumName<AttributeKind>>({{AttributeKind::kDouble, "double"},
                                                 {AttributeKind::kFloat, "float"},
                                                 {AttributeKind::kInt32, "int32"},
                                                 {AttributeKind::kInt64, "int64"},
                                                 {AttributeKind::kUint32, "uint32"},
                                                 {AttributeKind::kUint64, "uint64"},
                                                 {AttributeKind::kSint32, "sint32"},
                                                 {AttributeKind::kSint64, "sint64"},
                                                 {AttributeKind::kFixed32, "fixed32"},
                                                 {AttributeKind::kFixed64, "fixed64"},
                                                 {AttributeKind::kSfixed32, "sfixed32"},
                                                 {AttributeKind::kSfixed64, "sfixed64"},
                                                 {AttributeKind::kBool, "bool"},
                                                 {AttributeKind::kString, "string"},
                                                 {AttributeKind::kBytes, "bytes"}});
}

struct Attribute {
  std::string name;
  std::string doc;
  // An attribute may have no value: has_value false.
  bool has_value = false;
  bool is_list = false;
  AttributeKind kind = AttributeKind::kInt64;
  // Scalars have one element, in `texts` if the kind is string or bytes, else in `numbers`: signed
  // integers in two's complement, double and float as the bits of a double, bool as 0 or 1.
  std::vector<uint64_t> numbers;
  std::vector<std::string> texts;

  bool is_sound() const;  // whether the elements match has_value, is_list and kind
  bool operator==(const Attribute&) const = default;
};

// A scalar of a kind that is a number.
Attribute number_attribute(std::string_view name, AttributeKind kind, int64_t value);

struct IoInfo {
  std::string values, shapes, types;
  bool operator==(const IoInfo&) const = default;
};

struct ChakraMetadata {
  std::string version;
  std::vector<Attribute> attributes;
  bool operator==(const ChakraMetadata&) const = default;
};

struct ChakraNode {
  uint64_t id = 0;
  std::string name;
  int32_t type = 0;  // as the file says; Nodes know 0 to 7
  std::vector<uint64_t> ctrl_deps, data_deps;
  uint64_t start_time_micros = 0;
  uint64_t duration_micros = 0;
  std::optional<IoInfo> inputs, outputs;
  std::vector<Attribute> attributes;

  bool operator==(const ChakraNode&) const = default;
  const Attribute* find(std::string_view attribute) const;  // null where there is none
};

// What simulators use of a message. Integers of any kind are converted by value. Unusable: an id or
// number beyond 63 bits, a type or collective that Chakra does not know, a negative size.
//
// A duration is whole microseconds in Chakra; our files add the attribute `duration_nanos` where
// that would lose something, and it wins. Node::delay, which Chakra has no word for, is
// `delay_nanos`.
Result<graph::Node> to_node(const ChakraNode& message, bool keep_tensors = false);
// The rank tells a send's source and a receive's destination.
ChakraNode to_message(const graph::Node& node, int32_t rank);

// A name as messages show it: its beginning, without control characters.
std::string brief_name(std::string_view name);

}  // namespace tombolo::chakra
