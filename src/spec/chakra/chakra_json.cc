#include "spec/chakra/chakra_json.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>

namespace tombolo::chakra {
namespace {

using enum AttributeKind;

// One object's members, asked for by name in protobuf's two spellings.
class Members {
 public:
  Members(const Value& value, std::string place) : place_(std::move(place)) {
    table_ = value.get<Value::Table>();
    if (!table_) refuse(fmt::format("wanted an object, found {}", value.kind()));
  }
  std::span<const std::pair<std::string, Value>> all() const {
    return table_ ? std::span(*table_) : std::span<const std::pair<std::string, Value>>();
  }
  bool ok() const { return problem_.empty(); }
  Error error() const { return {ErrorCode::kUnusable, place_ + ": " + problem_, {}, ""}; }
  void refuse(std::string why) {
    if (problem_.empty()) problem_ = std::move(why);
  }
  const std::string& place() const { return place_; }

  void text(const std::string& key, const Value& value, std::string& out) {
    if (const auto* text = value.get<std::string>()) {
      out = *text;
    } else {
      refuse(fmt::format("{}: wanted a text, found {}", key, value.kind()));
    }
  }

  // The bits that Attribute::numbers has for it. 64-bit integers may be texts.
  uint64_t number(const std::string& key, const Value& value, AttributeKind kind) {
    if (kind == kDouble || kind == kFloat) return real(key, value, kind);
    if (const auto* flag = value.get<bool>(); flag && kind == kBool) return *flag;
    if (kind == kBool) {
      refuse(fmt::format("{}: wanted true or false, found {}", key, value.kind()));
      return 0;
    }
    const bool wide = kind == kInt64 || kind == kUint64 || kind == kSint64 || kind == kFixed64 ||
                      kind == kSfixed64;
    const bool natural = kind == kUint32 || kind == kUint64 || kind == kFixed32 || kind == kFixed64;
    const int64_t least = natural ? 0 : wide ? INT64_MIN : INT32_MIN;
    const uint64_t most = natural ? (wide ? UINT64_MAX : UINT32_MAX)
                                  : static_cast<uint64_t>(wide ? INT64_MAX : INT32_MAX);
    uint64_t bits = 0;
    bool negative = false;
    if (!integer(value, bits, negative)) {
      refuse(fmt::format("{}: wanted an integer, found {}", key, value.kind()));
    } else if (negative ? static_cast<int64_t>(bits) < least : bits > most) {
      refuse(fmt::format("{}: is beyond what {} holds", key, to_name(kind)));
    }
    return bits;
  }

  void list(const std::string& key, const Value& value, AttributeKind kind,
            std::vector<uint64_t>& out) {
    const auto* array = value.get<Value::Array>();
    if (!array) return refuse(fmt::format("{}: wanted a list, found {}", key, value.kind()));
    out.reserve(array->size());
    for (const Value& item : *array) out.push_back(number(key, item, kind));
  }

 private:
  static bool integer(const Value& value, uint64_t& bits, bool& negative) {
    if (const auto* number = value.get<int64_t>()) {
      bits = static_cast<uint64_t>(*number);
      negative = *number < 0;
      return true;
    }
    const auto* text = value.get<std::string>();
    if (!text || text->empty()) return false;
    const char* end = text->data() + text->size();
    negative = text->front() == '-';
    if (!negative) {
      const auto done = std::from_chars(text->data(), end, bits);
      return done.ec == std::errc() && done.ptr == end;
    }
    int64_t number = 0;
    const auto done = std::from_chars(text->data(), end, number);
    bits = static_cast<uint64_t>(number);
    negative = number < 0;
    return done.ec == std::errc() && done.ptr == end;
  }

  uint64_t real(const std::string& key, const Value& value, AttributeKind kind) {
    double number = 0;
    if (const auto* real = value.get<double>()) {
      number = *real;
    } else if (const auto* whole = value.get<int64_t>()) {
      number = static_cast<double>(*whole);
    } else if (const auto* text = value.get<std::string>(); text && *text == "NaN") {
      number = std::numeric_limits<double>::quiet_NaN();
    } else if (text && (*text == "Infinity" || *text == "-Infinity")) {
      number = std::numeric_limits<double>::infinity() * (text->front() == '-' ? -1 : 1);
    } else {
      refuse(fmt::format("{}: wanted a number, found {}", key, value.kind()));
    }
    if (kind == kFloat && std::isfinite(number)) {
      if (std::abs(number) > static_cast<double>(std::numeric_limits<float>::max())) {
        refuse(fmt::format("{}: is beyond what float holds", key));
        return 0;
      }
      number = static_cast<float>(number);
    }
    return std::bit_cast<uint64_t>(number);
  }

  const Value::Table* table_ = nullptr;
  std::string place_;
  std::string problem_;
};

std::optional<std::string> from_base64(std::string_view text) {
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  std::string out;
  uint32_t group = 0;
  int bits = 0;
  for (const char c : text) {
    const size_t digit = kBase64.find(c == '-' ? '+' : c == '_' ? '/' : c);
    if (digit == std::string_view::npos) return std::nullopt;
    group = (group << 6 | static_cast<uint32_t>(digit)) & 0xffffff;
    if ((bits += 6) >= 8) out.push_back(static_cast<char>(group >> (bits -= 8)));
  }
  return out;
}

void text_element(Members& members, const std::string& key, const Value& value, Attribute& out) {
  std::string text;
  members.text(key, value, text);
  if (out.kind == kBytes) {
    auto bytes = from_base64(text);
    if (!bytes) members.refuse(fmt::format("{}: is not base64", key));
    text = bytes.value_or("");
  }
  out.texts.push_back(std::move(text));
}

// "int64Val", "int64_val", "int64List", "int64_list".
bool attribute_value(Members& members, const std::string& key, const Value& value, Attribute& out) {
  const auto kind_before = [&](std::string_view suffix) -> std::optional<AttributeKind> {
    if (!key.ends_with(suffix)) return std::nullopt;
    return from_name<AttributeKind>(std::string_view(key).substr(0, key.size() - suffix.size()));
  };
  std::optional<AttributeKind> kind;
  for (const std::string_view suffix : {"Val", "_val"}) {
    if (!kind) kind = kind_before(suffix);
  }
  const bool scalar = kind.has_value();
  for (const std::string_view suffix : {"List", "_list"}) {
    if (!kind) kind = kind_before(suffix);
  }
  if (!kind) return false;
  if (out.has_value) members.refuse(fmt::format("{}: the attribute has a value before", key));
  out.has_value = true;
  out.is_list = !scalar;
  out.kind = *kind;
  const bool is_text = out.kind == kString || out.kind == kBytes;
  if (scalar && is_text) {
    text_element(members, key, value, out);
  } else if (scalar) {
    out.numbers.push_back(members.number(key, value, out.kind));
  } else {
    const auto* table = value.get<Value::Table>();
    if (!table) {
      members.refuse(fmt::format("{}: wanted an object, found {}", key, value.kind()));
      return true;
    }
    for (const auto& [inner, values] : *table) {
      if (inner != "values") {
        members.refuse(fmt::format("{}: has no member {}", key, inner));
      } else if (!is_text) {
        members.list(key, values, out.kind, out.numbers);
      } else if (const auto* array = values.get<Value::Array>()) {
        for (const Value& item : *array) text_element(members, key, item, out);
      } else {
        members.refuse(fmt::format("{}: wanted a list, found {}", key, values.kind()));
      }
    }
  }
  return true;
}

void attributes(Members& outer, const Value& value, std::vector<Attribute>& out) {
  const auto* array = value.get<Value::Array>();
  if (!array) return outer.refuse(fmt::format("attr: wanted a list, found {}", value.kind()));
  for (const Value& item : *array) {
    Attribute& attribute = out.emplace_back();
    Members members(item, outer.place());
    for (const auto& [key, inner] : members.all()) {
      if (key == "name") {
        members.text("attr.name", inner, attribute.name);
      } else if (key == "docString" || key == "doc_string") {
        members.text("attr.docString", inner, attribute.doc);
      } else if (!attribute_value(members, key, inner, attribute)) {
        members.refuse(fmt::format("attr: has no member {}", key));
      }
    }
    if (!members.ok())
      return outer.refuse(members.error().message.substr(outer.place().size() + 2));
  }
}

void io_info(Members& outer, const std::string& name, const Value& value,
             std::optional<IoInfo>& out) {
  out.emplace();
  const auto* table = value.get<Value::Table>();
  if (!table)
    return outer.refuse(fmt::format("{}: wanted an object, found {}", name, value.kind()));
  for (const auto& [key, inner] : *table) {
    if (key == "values") {
      outer.text(key, inner, out->values);
    } else if (key == "shapes") {
      outer.text(key, inner, out->shapes);
    } else if (key == "types") {
      outer.text(key, inner, out->types);
    } else {
      outer.refuse(fmt::format("{}: has no member {}", name, key));
    }
  }
}

void node_type(Members& members, const Value& value, int32_t& out) {
  const auto* text = value.get<std::string>();
  const auto known = text ? from_name<graph::NodeType>(*text) : std::nullopt;
  if (known) {
    out = static_cast<int32_t>(*known);
  } else if (text) {
    members.refuse(fmt::format("type: Chakra does not know {}", brief_name(*text)));
  } else {
    out = static_cast<int32_t>(members.number("type", value, kInt32));
  }
}

// An attribute of a "workload_graph", whose kind only its value tells.
void loose_attribute(Members& members, const std::string& key, const Value& value,
                     std::vector<Attribute>& out) {
  Attribute attribute;
  attribute.name = key;
  attribute.has_value = true;
  const auto* array = value.get<Value::Array>();
  attribute.is_list = array != nullptr;
  const std::span<const Value> items = array ? std::span(*array) : std::span(&value, 1);
  const Value* first = items.empty() ? nullptr : &items[0];
  attribute.kind = !first                      ? kInt64
                   : first->get<bool>()        ? kBool
                   : first->get<double>()      ? kDouble
                   : first->get<std::string>() ? kString
                                               : kInt64;
  for (const Value& item : items) {
    if (attribute.kind == kString) {
      text_element(members, key, item, attribute);
    } else {
      attribute.numbers.push_back(members.number(key, item, attribute.kind));
    }
  }
  out.push_back(std::move(attribute));
}

}  // namespace

Result<ChakraMetadata> metadata_from_json(const Value& value, const std::string& place) {
  ChakraMetadata out;
  Members members(value, place);
  for (const auto& [key, inner] : members.all()) {
    if (key == "version") {
      members.text(key, inner, out.version);
      if (out.version.starts_with('\n')) members.refuse("version: is none");
    } else if (key == "attr") {
      attributes(members, inner, out.attributes);
    } else {
      members.refuse(fmt::format("metadata has no member {}", brief_name(key)));
    }
  }
  if (!members.ok()) return fail(members.error());
  return out;
}

Result<ChakraNode> node_from_json(const Value& value, const std::string& place) {
  ChakraNode out;
  Members members(value, place);
  for (const auto& [key, inner] : members.all()) {
    if (key == "id") {
      out.id = members.number(key, inner, kUint64);
    } else if (key == "name") {
      members.text(key, inner, out.name);
    } else if (key == "type") {
      node_type(members, inner, out.type);
    } else if (key == "ctrlDeps" || key == "ctrl_deps") {
      members.list(key, inner, kUint64, out.ctrl_deps);
    } else if (key == "dataDeps" || key == "data_deps") {
      members.list(key, inner, kUint64, out.data_deps);
    } else if (key == "startTimeMicros" || key == "start_time_micros") {
      out.start_time_micros = members.number(key, inner, kUint64);
    } else if (key == "durationMicros" || key == "duration_micros") {
      out.duration_micros = members.number(key, inner, kUint64);
    } else if (key == "inputs") {
      io_info(members, key, inner, out.inputs);
    } else if (key == "outputs") {
      io_info(members, key, inner, out.outputs);
    } else if (key == "attr") {
      attributes(members, inner, out.attributes);
    } else {
      members.refuse(fmt::format("a node has no member {}", brief_name(key)));
    }
  }
  if (!members.ok()) return fail(members.error());
  return out;
}

Result<ChakraNode> node_from_workload_graph(const Value& value, const std::string& place) {
  ChakraNode out;
  Members members(value, place);
  for (const auto& [key, inner] : members.all()) {
    if (key == "Id") {
      out.id = members.number(key, inner, kUint64);
    } else if (key == "Name") {
      members.text(key, inner, out.name);
    } else if (key == "NodeType") {
      node_type(members, inner, out.type);
    } else if (key == "ctrlDeps" || key == "ctrl_deps") {
      members.list(key, inner, kUint64, out.ctrl_deps);
    } else if (key == "dataDeps" || key == "data_deps") {
      members.list(key, inner, kUint64, out.data_deps);
    } else if (key == "runtime") {
      out.duration_micros = members.number(key, inner, kUint64);
    } else {
      loose_attribute(members, key, inner, out.attributes);
    }
  }
  if (!members.ok()) return fail(members.error());
  return out;
}

}  // namespace tombolo::chakra
