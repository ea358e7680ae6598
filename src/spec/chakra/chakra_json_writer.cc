#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "base/json.h"
#include "spec/chakra/chakra_json.h"

namespace tombolo::chakra {
namespace {

using enum AttributeKind;

std::string to_base64(const std::string& bytes) {
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    for (size_t k = 0; k < 3; ++k) {
      group = group << 8 | (k < n ? static_cast<uint8_t>(bytes[i + k]) : 0);
    }
    for (size_t k = 0; k < 4; ++k) {
      out.push_back(k <= n ? kBase64[group >> (18 - 6 * k) & 63] : '=');
    }
  }
  return out;
}

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = [&](size_t k) { return static_cast<uint8_t>(text[k]); };
    const uint8_t lead = byte(i);
    const size_t size = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (size == 0 || lead > 0xf4 || i + size > text.size()) return false;
    for (size_t k = 1; k < size; ++k) {
      if ((byte(i + k) & 0xc0) != 0x80) return false;
    }
    // Too long a form, half of a pair, beyond the last code point.
    if (lead == 0xe0 && byte(i + 1) < 0xa0) return false;
    if (lead == 0xed && byte(i + 1) > 0x9f) return false;
    if (lead == 0xf0 && byte(i + 1) < 0x90) return false;
    if (lead == 0xf4 && byte(i + 1) > 0x8f) return false;
    i += size;
  }
  return true;
}

class Writer {
 public:
  bool utf8 = true;

  void text(Value::Table& table, const char* key, const std::string& value) {
    if (!value.empty()) table.emplace_back(key, checked(value));
  }
  static void natural(Value::Table& table, const char* key, uint64_t value) {
    if (value != 0) table.emplace_back(key, fmt::format("{}", value));
  }
  static void ids(Value::Table& table, const char* key, const std::vector<uint64_t>& list) {
    if (list.empty()) return;
    Value::Array array;
    for (const uint64_t id : list) array.emplace_back(fmt::format("{}", id));
    table.emplace_back(key, std::move(array));
  }
  void io_info(Value::Table& table, const char* key, const std::optional<IoInfo>& info) {
    if (!info) return;
    Value::Table inner;
    text(inner, "values", info->values);
    text(inner, "shapes", info->shapes);
    text(inner, "types", info->types);
    table.emplace_back(key, std::move(inner));
  }
  void attributes(Value::Table& table, const std::vector<Attribute>& list) {
    if (list.empty()) return;
    Value::Array array;
    for (const Attribute& attribute : list) {
      CHECK(attribute.is_sound(), "attribute \"{}\" has {} numbers and {} texts", attribute.name,
            attribute.numbers.size(), attribute.texts.size());
      Value::Table inner;
      text(inner, "name", attribute.name);
      text(inner, "docString", attribute.doc);
      const std::string kind(to_name(attribute.kind));
      if (attribute.has_value && attribute.is_list) {
        Value::Array values;
        for (const std::string& item : attribute.texts) values.push_back(element(attribute, item));
        for (const uint64_t item : attribute.numbers) values.push_back(number(attribute, item));
        Value::Table wrapped;
        if (!values.empty()) wrapped.emplace_back("values", std::move(values));
        inner.emplace_back(kind + "List", std::move(wrapped));
      } else if (attribute.has_value) {
        inner.emplace_back(kind + "Val", attribute.numbers.empty()
                                             ? element(attribute, attribute.texts[0])
                                             : number(attribute, attribute.numbers[0]));
      }
      array.emplace_back(std::move(inner));
    }
    table.emplace_back("attr", std::move(array));
  }

 private:
  std::string checked(const std::string& text) {
    utf8 = utf8 && is_utf8(text);
    return text;
  }
  Value element(const Attribute& attribute, const std::string& text) {
    return attribute.kind == kBytes ? to_base64(text) : checked(text);
  }
  static Value number(const Attribute& attribute, uint64_t bits) {
    const auto whole = static_cast<int64_t>(bits);
    switch (attribute.kind) {
      case kDouble:
      case kFloat: {
        const double real = std::bit_cast<double>(bits);
        if (std::isnan(real)) return "NaN";
        if (std::isinf(real)) return real < 0 ? "-Infinity" : "Infinity";
        return real;
      }
      case kBool:
        return bits != 0;
      case kInt64:
      case kSint64:
      case kSfixed64:
        return fmt::format("{}", whole);
      case kUint64:
      case kFixed64:
        return fmt::format("{}", bits);
      default:
        return whole;
    }
  }
};

Result<std::string> line(Value::Table table, bool utf8) {
  if (!utf8) {
    return unusable("a text of it is not UTF-8, which JSON needs", "keeping the binary form");
  }
  return to_json(Value(std::move(table)), -1) + "\n";
}

}  // namespace

Result<std::string> to_json_line(const ChakraMetadata& metadata) {
  Writer writer;
  Value::Table table;
  writer.text(table, "version", metadata.version);
  writer.attributes(table, metadata.attributes);
  return line(std::move(table), writer.utf8);
}

Result<std::string> to_json_line(const ChakraNode& node) {
  Writer writer;
  Value::Table table;
  Writer::natural(table, "id", node.id);
  writer.text(table, "name", node.name);
  const auto type = static_cast<graph::NodeType>(node.type);
  if (node.type > 0 && node.type <= static_cast<int32_t>(graph::NodeType::kCollective)) {
    table.emplace_back("type", std::string(to_name(type)));
  } else if (node.type != 0) {
    table.emplace_back("type", int64_t{node.type});
  }
  Writer::ids(table, "ctrlDeps", node.ctrl_deps);
  Writer::ids(table, "dataDeps", node.data_deps);
  Writer::natural(table, "startTimeMicros", node.start_time_micros);
  Writer::natural(table, "durationMicros", node.duration_micros);
  writer.io_info(table, "inputs", node.inputs);
  writer.io_info(table, "outputs", node.outputs);
  writer.attributes(table, node.attributes);
  return line(std::move(table), writer.utf8);
}

}  // namespace tombolo::chakra
