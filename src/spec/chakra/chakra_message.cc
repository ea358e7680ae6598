#include "spec/chakra/chakra_message.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace tombolo::chakra {

Attribute number_attribute(std::string_view name, AttributeKind kind, int64_t value) {
  Attribute attribute;
  attribute.name = name;
  attribute.has_value = true;
  attribute.kind = kind;
  attribute.numbers = {static_cast<uint64_t>(value)};
  return attribute;
}

namespace {

constexpr std::string_view kNanos = "duration_nanos";
constexpr std::string_view kDelay = "delay_nanos";

tl::unexpected<Error> wrong(const ChakraNode& message, std::string why) {
  return unusable(fmt::format("node {} (\"{}\"): {}", message.id, brief_name(message.name), why));
}

bool is_unsigned(AttributeKind kind) {
  using enum AttributeKind;
  return kind == kUint32 || kind == kUint64 || kind == kFixed32 || kind == kFixed64;
}

// Element i by value, whatever kind of number it is.
Result<int64_t> integer(const ChakraNode& message, const Attribute& attribute, size_t i = 0) {
  using enum AttributeKind;
  if (i >= attribute.numbers.size()) {
    return wrong(message, fmt::format("its {} is not a number", attribute.name));
  }
  const uint64_t number = attribute.numbers[i];
  if (attribute.kind == kDouble || attribute.kind == kFloat) {
    const double value = std::bit_cast<double>(number);
    if (!(std::abs(value) < 0x1p63) || value != std::trunc(value)) {
      return wrong(message, fmt::format("its {} is {}, not a whole number", attribute.name, value));
    }
    return static_cast<int64_t>(value);
  }
  if (is_unsigned(attribute.kind) && number > static_cast<uint64_t>(INT64_MAX)) {
    return wrong(message, fmt::format("its {} is {}, beyond 63 bits", attribute.name, number));
  }
  return static_cast<int64_t>(number);
}

Result<int64_t> within(const ChakraNode& message, const Attribute& attribute, int64_t min,
                       int64_t max) {
  const int64_t value = TRY(integer(message, attribute));
  if (value < min || value > max) {
    return wrong(message, fmt::format("its {} is {}, but only {} to {} makes sense", attribute.name,
                                      value, min, max));
  }
  return value;
}

Result<std::vector<int64_t>> ids(const ChakraNode& message, const std::vector<uint64_t>& list) {
  std::vector<int64_t> out;
  out.reserve(list.size());
  for (const uint64_t id : list) {
    if (id > static_cast<uint64_t>(INT64_MAX)) {
      return wrong(message, fmt::format("it depends on node {}, an id beyond 63 bits", id));
    }
    out.push_back(static_cast<int64_t>(id));
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Status take(const ChakraNode& message, const Attribute& attribute, bool keep_tensors,
            graph::Node& node) {
  const std::string& name = attribute.name;
  if (!attribute.has_value) return {};
  if (name == "is_cpu_op") {
    node.is_cpu_op = TRY(integer(message, attribute)) != 0;
  } else if (name == "num_ops") {
    node.num_ops = TRY(within(message, attribute, 0, INT64_MAX));
  } else if (name == "tensor_size") {
    node.tensor_size = TRY(within(message, attribute, 0, INT64_MAX));
  } else if (name == "comm_size") {
    node.comm_size = TRY(within(message, attribute, 0, INT64_MAX));
  } else if (name == "comm_tag") {
    node.comm_tag = TRY(integer(message, attribute));
  } else if (name == "comm_priority") {
    node.comm_priority = static_cast<uint32_t>(TRY(within(message, attribute, 0, UINT32_MAX)));
  } else if (name == kNanos) {
    node.duration.ns = TRY(within(message, attribute, 0, INT64_MAX));
  } else if (name == kDelay) {
    node.delay.ns = TRY(within(message, attribute, 0, INT64_MAX));
  } else if (name == "comm_type" && node.type == graph::NodeType::kCollective) {
    const int64_t last = static_cast<int64_t>(graph::CollectiveType::kBarrier);
    node.collective = static_cast<graph::CollectiveType>(TRY(within(message, attribute, 0, last)));
  } else if ((name == "comm_dst" && node.type == graph::NodeType::kSend) ||
             (name == "comm_src" && node.type == graph::NodeType::kReceive)) {
    node.comm_peer = static_cast<int32_t>(TRY(within(message, attribute, 0, INT32_MAX)));
  } else if (name == "pg_name") {
    // Some tools number their groups.
    node.details.edit().pg_name = attribute.texts.empty()
                                      ? fmt::format("{}", TRY(integer(message, attribute)))
                                      : attribute.texts[0];
  } else if (name == "involved_dim") {
    std::vector<uint8_t>& dims = node.details.edit().involved_dims;
    for (size_t i = 0; i < attribute.numbers.size(); ++i) {
      dims.push_back(TRY(integer(message, attribute, i)) != 0);
    }
  } else if (keep_tensors && name == "inputs") {
    node.details.edit().inputs = attribute.texts;
  } else if (keep_tensors && name == "outputs") {
    node.details.edit().outputs = attribute.texts;
  }
  return {};
}

Attribute texts(std::string_view name, bool is_list, std::vector<std::string> list) {
  Attribute attribute;
  attribute.name = name;
  attribute.has_value = true;
  attribute.is_list = is_list;
  attribute.kind = AttributeKind::kString;
  attribute.texts = std::move(list);
  return attribute;
}

// What tools read without asking for its kind: int32 where that is wide enough.
Attribute narrow(std::string_view name, int64_t value) {
  const bool fits = value >= INT32_MIN && value <= INT32_MAX;
  return number_attribute(name, fits ? AttributeKind::kInt32 : AttributeKind::kInt64, value);
}

}  // namespace

std::string brief_name(std::string_view name) {
  constexpr size_t kLongest = 60;
  std::string out(name.substr(0, kLongest));
  for (char& c : out) {
    if (static_cast<uint8_t>(c) < 0x20 || c == 0x7f) c = '?';
  }
  if (name.size() > kLongest) {
    while (!out.empty() && (static_cast<uint8_t>(out.back()) & 0x80)) out.pop_back();
    out += "...";
  }
  return out;
}

bool Attribute::is_sound() const {
  const bool text = kind == AttributeKind::kString || kind == AttributeKind::kBytes;
  const size_t elements = text ? texts.size() : numbers.size();
  const size_t others = text ? numbers.size() : texts.size();
  return others == 0 && (has_value ? is_list || elements == 1 : elements == 0);
}

const Attribute* ChakraNode::find(std::string_view attribute) const {
  for (const Attribute& candidate : attributes) {
    if (candidate.name == attribute) return &candidate;
  }
  return nullptr;
}

Result<graph::Node> to_node(const ChakraNode& message, bool keep_tensors) {
  graph::Node node;
  if (message.id > static_cast<uint64_t>(INT64_MAX)) {
    return wrong(message, "its id is beyond 63 bits");
  }
  if (message.type < 0 || message.type > static_cast<int32_t>(graph::NodeType::kCollective)) {
    return wrong(message,
                 fmt::format("it is of type {}, which Chakra does not know", message.type));
  }
  if (message.duration_micros > static_cast<uint64_t>(INT64_MAX) / 1000) {
    return wrong(message,
                 fmt::format("it lasts {} microseconds, more nanoseconds than 63 bits hold",
                             message.duration_micros));
  }
  node.id = static_cast<int64_t>(message.id);
  node.name = message.name;
  node.type = static_cast<graph::NodeType>(message.type);
  node.duration.ns = static_cast<int64_t>(message.duration_micros) * 1000;
  node.ctrl_deps = TRY(ids(message, message.ctrl_deps));
  node.data_deps = TRY(ids(message, message.data_deps));
  const bool keep = keep_tensors || node.type == graph::NodeType::kMetadata;
  if (keep && message.inputs && !message.inputs->values.empty()) {
    node.details.edit().inputs = {message.inputs->values};
  }
  if (keep && message.outputs && !message.outputs->values.empty()) {
    node.details.edit().outputs = {message.outputs->values};
  }
  for (const Attribute& attribute : message.attributes) {
    TRY(take(message, attribute, keep, node));
  }
  return node;
}

ChakraNode to_message(const graph::Node& node, int32_t rank) {
  using enum AttributeKind;
  ChakraNode out;
  CHECK(node.id >= 0 && node.duration.ns >= 0, "node {} lasts {} ns", node.id, node.duration.ns);
  CHECK(node.delay.ns >= 0, "node {} waits for {} ns", node.id, node.delay.ns);
  CHECK(rank >= 0, "node {} of rank {}", node.id, rank);
  out.id = static_cast<uint64_t>(node.id);
  out.name = node.name;
  out.type = static_cast<int32_t>(node.type);
  out.ctrl_deps.assign(node.ctrl_deps.begin(), node.ctrl_deps.end());
  out.data_deps.assign(node.data_deps.begin(), node.data_deps.end());
  const int64_t micros = node.duration.ns / 1000 + (node.duration.ns % 1000 >= 500 ? 1 : 0);
  out.duration_micros = static_cast<uint64_t>(micros);
  const auto add = [&](Attribute attribute) { out.attributes.push_back(std::move(attribute)); };
  // Written even where it is false: some readers take it to be true otherwise.
  add(number_attribute("is_cpu_op", kBool, node.is_cpu_op));
  if (node.duration.ns % 1000 != 0) add(number_attribute(kNanos, kInt64, node.duration.ns));
  if (node.delay.ns != 0) add(number_attribute(kDelay, kInt64, node.delay.ns));
  if (node.num_ops != 0) add(number_attribute("num_ops", kInt64, node.num_ops));
  if (node.tensor_size != 0) add(number_attribute("tensor_size", kUint64, node.tensor_size));
  const bool collective = node.type == graph::NodeType::kCollective;
  const bool sends = node.type == graph::NodeType::kSend;
  if (collective) add(number_attribute("comm_type", kInt64, static_cast<int64_t>(node.collective)));
  if (collective || sends || node.type == graph::NodeType::kReceive) {
    add(number_attribute("comm_size", kInt64, node.comm_size));
    if (node.comm_priority != 0) add(narrow("comm_priority", node.comm_priority));
    add(narrow("comm_tag", node.comm_tag));
  }
  if ((sends || node.type == graph::NodeType::kReceive) && node.comm_peer >= 0) {
    add(narrow("comm_src", sends ? rank : node.comm_peer));
    add(narrow("comm_dst", sends ? node.comm_peer : rank));
  }
  const graph::NodeDetails& details = *node.details;
  if (!details.pg_name.empty()) add(texts("pg_name", false, {details.pg_name}));
  if (!details.involved_dims.empty()) {
    Attribute dims = number_attribute("involved_dim", kBool, 0);
    dims.is_list = true;
    dims.numbers.assign(details.involved_dims.begin(), details.involved_dims.end());
    add(std::move(dims));
  }
  // Process groups are looked for in the text that PyTorch's traces have.
  const bool as_text = node.type == graph::NodeType::kMetadata && details.inputs.size() == 1;
  if (as_text) {
    out.inputs = IoInfo{details.inputs[0], "", ""};
  } else if (!details.inputs.empty()) {
    add(texts("inputs", true, details.inputs));
  }
  if (!details.outputs.empty()) add(texts("outputs", true, details.outputs));
  return out;
}

}  // namespace tombolo::chakra
