#include "spec/chakra/chakra_binary.h"

#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "spec/chakra/wire.h"

namespace tombolo::chakra {
namespace {

using enum AttributeKind;

uint64_t bits_of(double value) {
  // One NaN for all: which one it was means nothing and does not survive JSON.
  if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();
  return std::bit_cast<uint64_t>(value);
}

bool is_text(AttributeKind kind) { return kind == kString || kind == kBytes; }

WireKind wire_kind(AttributeKind kind) {
  switch (kind) {
    case kDouble:
    case kFixed64:
    case kSfixed64:
      return WireKind::kEight;
    case kFloat:
    case kFixed32:
    case kSfixed32:
      return WireKind::kFour;
    case kString:
    case kBytes:
      return WireKind::kBytes;
    default:
      return WireKind::kVarint;
  }
}

// Between what stands on the wire and what Attribute::numbers holds.
uint64_t from_wire(AttributeKind kind, uint64_t raw) {
  const auto low = static_cast<uint32_t>(raw);
  switch (kind) {
    case kDouble:
      return bits_of(std::bit_cast<double>(raw));
    case kFloat:
      return bits_of(std::bit_cast<float>(low));
    case kInt32:
    case kSfixed32:
      return static_cast<uint64_t>(int64_t{static_cast<int32_t>(low)});
    case kUint32:
      return low;
    case kSint32:
      return static_cast<uint64_t>(int64_t{static_cast<int32_t>(from_zigzag(low))});
    case kSint64:
      return static_cast<uint64_t>(from_zigzag(raw));
    case kBool:
      return raw != 0;
    default:
      return raw;
  }
}
uint64_t to_wire(AttributeKind kind, uint64_t number) {
  switch (kind) {
    case kFloat:
      return std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(number)));
    case kSint32:
      return static_cast<uint32_t>(to_zigzag(static_cast<int64_t>(number)));
    case kSint64:
      return to_zigzag(static_cast<int64_t>(number));
    default:
      return number;
  }
}

// A vector whose elements outlive clear(), with their memory: most nodes look like the one before.
template <typename T>
class Refill {
 public:
  explicit Refill(std::vector<T>& list) : list_(list) {}
  ~Refill() { list_.resize(used_); }
  T& next() {
    if (used_ == list_.size()) list_.emplace_back();
    return list_[used_++];
  }
  size_t size() const { return used_; }

 private:
  std::vector<T>& list_;
  size_t used_ = 0;
};

class Decoder {
 public:
  std::string problem;

  bool metadata(std::string_view bytes, ChakraMetadata& out) {
    out.version.clear();
    Refill<Attribute> attributes(out.attributes);
    WireReader reader(bytes);
    WireField field;
    while (!reader.done()) {
      if (!reader.next(field)) return refuse(reader.problem());
      if (field.kind != WireKind::kBytes) continue;
      if (attributes.size() == kAttributeLimit) return refuse("too many attributes");
      // The first schemas had attributes here, which begin with the key of their name.
      const bool old = field.number == 1 && field.bytes.substr(0, 1) == "\x0a";
      if (field.number == 1 && !old) {
        out.version = field.bytes;
      } else if (field.number == 2 || old) {
        if (!attribute(field.bytes, attributes.next())) return false;
      }
    }
    return true;
  }

  bool node(std::string_view bytes, ChakraNode& out) {
    out.id = 0;
    out.name.clear();
    out.type = 0;
    out.ctrl_deps.clear();
    out.data_deps.clear();
    out.start_time_micros = out.duration_micros = 0;
    out.inputs.reset();
    out.outputs.reset();
    Refill<Attribute> attributes(out.attributes);
    WireReader reader(bytes);
    WireField field;
    while (!reader.done()) {
      if (!reader.next(field)) return refuse(reader.problem());
      switch (field.number) {
        case 1:
          if (!number(field, out.id)) return false;
          break;
        case 2:
          if (!text(field, out.name)) return false;
          break;
        case 3: {
          uint64_t type = 0;
          if (!number(field, type)) return false;
          out.type = static_cast<int32_t>(type);
          break;
        }
        case 4:
          if (!numbers(field, kUint64, out.ctrl_deps)) return false;
          break;
        case 5:
          if (!numbers(field, kUint64, out.data_deps)) return false;
          break;
        case 6:
          if (!number(field, out.start_time_micros)) return false;
          break;
        case 7:
          if (!number(field, out.duration_micros)) return false;
          break;
        case 8:
          if (!io_info(field, out.inputs)) return false;
          break;
        case 9:
          if (!io_info(field, out.outputs)) return false;
          break;
        case 10:
          if (field.kind != WireKind::kBytes) return wrong_kind(field);
          if (attributes.size() == kAttributeLimit) return refuse("too many attributes");
          if (!attribute(field.bytes, attributes.next())) return false;
          break;
        default:
          break;  // of a later schema
      }
    }
    return true;
  }

 private:
  bool refuse(std::string why) {
    problem = std::move(why);
    return false;
  }
  bool wrong_kind(const WireField& field) {
    return refuse(fmt::format("field {} is of kind {}, which Chakra does not write there",
                              field.number, static_cast<int>(field.kind)));
  }
  bool number(const WireField& field, uint64_t& out) {
    if (field.kind != WireKind::kVarint) return wrong_kind(field);
    out = field.value;
    return true;
  }
  bool text(const WireField& field, std::string& out) {
    if (field.kind != WireKind::kBytes) return wrong_kind(field);
    out = field.bytes;
    return true;
  }

  // One element, or a packed run of them.
  bool numbers(const WireField& field, AttributeKind kind, std::vector<uint64_t>& out) {
    if (field.kind != WireKind::kBytes) {
      if (field.kind != wire_kind(kind)) return wrong_kind(field);
      if (++elements_ > kListLimit) return too_long();
      out.push_back(from_wire(kind, field.value));
      return true;
    }
    WireReader packed(field.bytes);
    while (!packed.done()) {
      uint64_t raw = 0;
      const WireKind wire = wire_kind(kind);
      if (!(wire == WireKind::kVarint ? packed.varint(raw)
                                      : packed.fixed(wire == WireKind::kFour ? 4 : 8, raw))) {
        return refuse(packed.problem());
      }
      if (++elements_ > kListLimit) return too_long();
      out.push_back(from_wire(kind, raw));
    }
    return true;
  }
  bool too_long() { return refuse(fmt::format("lists of more than {} elements", kListLimit)); }

  bool io_info(const WireField& field, std::optional<IoInfo>& out) {
    if (field.kind != WireKind::kBytes) return wrong_kind(field);
    if (!out) out.emplace();
    WireReader reader(field.bytes);
    WireField inner;
    while (!reader.done()) {
      if (!reader.next(inner)) return refuse(reader.problem());
      if (inner.number < 1 || inner.number > 3) continue;
      if (!text(inner, inner.number == 1   ? out->values
                       : inner.number == 2 ? out->shapes
                                           : out->types)) {
        return false;
      }
    }
    return true;
  }

  bool attribute(std::string_view bytes, Attribute& out) {
    out.name.clear();
    out.doc.clear();
    out.has_value = out.is_list = false;
    out.kind = kInt64;
    out.numbers.clear();
    out.texts.clear();
    WireReader reader(bytes);
    WireField field;
    while (!reader.done()) {
      if (!reader.next(field)) return refuse(reader.problem());
      if (field.number == 1) {
        if (!text(field, out.name)) return false;
      } else if (field.number == 2) {
        if (!text(field, out.doc)) return false;
      } else if (field.number <= 32) {
        if (!value(field, out)) return false;
      }
    }
    return true;
  }

  // Of a oneof the last one counts; parts of one list are one list.
  bool value(const WireField& field, Attribute& out) {
    const auto kind = static_cast<AttributeKind>((field.number - 3) / 2);
    const bool is_list = field.number % 2 == 0;
    if (!(is_list && out.has_value && out.is_list && out.kind == kind)) {
      out.numbers.clear();
      out.texts.clear();
    }
    out.has_value = true;
    out.kind = kind;
    out.is_list = is_list;
    if (!is_list) {
      if (field.kind != wire_kind(kind)) return wrong_kind(field);
      if (is_text(kind)) {
        out.texts.emplace_back(field.bytes);
      } else {
        out.numbers.push_back(from_wire(kind, field.value));
      }
      return true;
    }
    if (field.kind != WireKind::kBytes) return wrong_kind(field);
    WireReader list(field.bytes);
    WireField element;
    while (!list.done()) {
      if (!list.next(element)) return refuse(list.problem());
      if (element.number != 1) continue;
      if (!is_text(kind)) {
        if (!numbers(element, kind, out.numbers)) return false;
      } else if (element.kind != WireKind::kBytes) {
        return wrong_kind(element);
      } else if (++elements_ > kListLimit) {
        return too_long();
      } else {
        out.texts.emplace_back(element.bytes);
      }
    }
    return true;
  }

  size_t elements_ = 0;
};

void append_text(std::string& out, uint32_t number, const std::string& text) {
  if (!text.empty()) append_bytes(out, number, text);
}
void append_number(std::string& out, uint32_t number, uint64_t value) {
  if (value == 0) return;
  append_key(out, number, WireKind::kVarint);
  append_varint(out, value);
}
void append_element(std::string& out, AttributeKind kind, uint64_t number) {
  const uint64_t raw = to_wire(kind, number);
  switch (wire_kind(kind)) {
    case WireKind::kVarint:
      return append_varint(out, raw);
    case WireKind::kFour:
      return append_fixed(out, 4, raw);
    default:
      return append_fixed(out, 8, raw);
  }
}
void append_packed(std::string& out, uint32_t number, AttributeKind kind,
                   const std::vector<uint64_t>& numbers) {
  if (numbers.empty()) return;
  std::string packed;
  for (const uint64_t element : numbers) append_element(packed, kind, element);
  append_bytes(out, number, packed);
}

void append_attributes(std::string& out, uint32_t number, const std::vector<Attribute>& list) {
  for (const Attribute& attribute : list) {
    CHECK(attribute.is_sound(), "attribute \"{}\" has {} numbers and {} texts", attribute.name,
          attribute.numbers.size(), attribute.texts.size());
    std::string bytes;
    append_text(bytes, 1, attribute.name);
    append_text(bytes, 2, attribute.doc);
    const uint32_t field = 2 * static_cast<uint32_t>(attribute.kind) + 3;
    if (attribute.has_value && attribute.is_list) {
      std::string elements;
      for (const std::string& text : attribute.texts) append_bytes(elements, 1, text);
      append_packed(elements, 1, attribute.kind, attribute.numbers);
      append_bytes(bytes, field + 1, elements);
    } else if (attribute.has_value && is_text(attribute.kind)) {
      append_bytes(bytes, field, attribute.texts[0]);
    } else if (attribute.has_value) {
      append_key(bytes, field, wire_kind(attribute.kind));
      append_element(bytes, attribute.kind, attribute.numbers[0]);
    }
    append_bytes(out, number, bytes);
  }
}

void append_io_info(std::string& out, uint32_t number, const std::optional<IoInfo>& info) {
  if (!info) return;
  std::string bytes;
  append_text(bytes, 1, info->values);
  append_text(bytes, 2, info->shapes);
  append_text(bytes, 3, info->types);
  append_bytes(out, number, bytes);
}

}  // namespace

std::string decode(std::string_view bytes, ChakraMetadata& metadata) {
  Decoder decoder;
  decoder.metadata(bytes, metadata);
  return decoder.problem;
}

std::string decode(std::string_view bytes, ChakraNode& node) {
  Decoder decoder;
  decoder.node(bytes, node);
  return decoder.problem;
}

void encode(const ChakraMetadata& metadata, std::string& out) {
  append_text(out, 1, metadata.version);
  append_attributes(out, 2, metadata.attributes);
}

void encode(const ChakraNode& node, std::string& out) {
  append_number(out, 1, node.id);
  append_text(out, 2, node.name);
  append_number(out, 3, static_cast<uint64_t>(int64_t{node.type}));
  append_packed(out, 4, kUint64, node.ctrl_deps);
  append_packed(out, 5, kUint64, node.data_deps);
  append_number(out, 6, node.start_time_micros);
  append_number(out, 7, node.duration_micros);
  append_io_info(out, 8, node.inputs);
  append_io_info(out, 9, node.outputs);
  append_attributes(out, 10, node.attributes);
}

}  // namespace tombolo::chakra
