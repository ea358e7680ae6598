#include "perform/state/safetensors.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"

namespace tombolo::state {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kHeaderMax = 100'000'000;  // as the reference implementation
constexpr int64_t kFileMax = int64_t{1} << 40;
constexpr size_t kPiece = 1 << 20;
constexpr std::string_view kMetadataKey = "__metadata__";

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The bytes that a shape asks for; nothing where the product is negative or beyond 63 bits.
std::optional<int64_t> wanted_bytes(std::string_view dtype, std::span<const int64_t> shape) {
  int64_t bytes = dtype_bytes(dtype);
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return bytes;
}

// Of tensors with these bytes each, one after the other.
std::string header_text(std::span<const TensorShape> tensors, const Metadata& metadata) {
  Value::Table header;
  if (!metadata.empty()) {
    Value::Table words;
    for (const auto& [key, value] : metadata) words.emplace_back(key, value);
    header.emplace_back(std::string(kMetadataKey), std::move(words));
  }
  int64_t offset = 0;
  std::set<std::string_view> names;
  for (const TensorShape& tensor : tensors) {
    CHECK(dtype_bytes(tensor.dtype) > 0, "{} has dtype \"{}\"", tensor.name, tensor.dtype);
    CHECK(tensor.name != kMetadataKey && names.insert(tensor.name).second, "{} is written twice",
          tensor.name);
    const int64_t size = wanted_bytes(tensor.dtype, tensor.shape).value_or(0);
    Value::Array shape(tensor.shape.begin(), tensor.shape.end());
    header.emplace_back(
        tensor.name,
        Value::Table{{"dtype", tensor.dtype},
                     {"shape", std::move(shape)},
                     {"data_offsets", Value::Array{Value(offset), Value(offset + size)}}});
    offset += size;
  }
  std::string text = to_json(Value(std::move(header)), -1);
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  return text;
}

std::string length_text(const std::string& header) {
  CHECK(header.size() <= kHeaderMax, "a header of {} bytes", header.size());
  std::string length(kLengthBytes, '\0');
  for (size_t i = 0; i < kLengthBytes; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  return length;
}

// A tensor as the header describes it; begin and end count from the end of the header.
struct Entry {
  TensorShape tensor;
  int64_t begin = 0;
  int64_t end = 0;
};

Result<std::vector<int64_t>> read_numbers(const Value* list, const std::string& where) {
  const Value::Array* array = list ? list->get<Value::Array>() : nullptr;
  if (!array) return unusable(where + ": wanted a list of whole numbers");
  std::vector<int64_t> out;
  for (const Value& item : *array) {
    const int64_t* number = item.get<int64_t>();
    if (!number || *number < 0)
      return unusable(where + ": wanted whole numbers that are not below 0");
    out.push_back(*number);
  }
  return out;
}

Result<Entry> read_entry(const std::string& key, const Value& value, int64_t data_bytes,
                         const std::string& name) {
  const std::string where = fmt::format("{}: tensor \"{}\"", name, key);
  Entry entry;
  entry.tensor.name = key;
  const Value* dtype = value.find("dtype");
  const std::string* dtype_name = dtype ? dtype->get<std::string>() : nullptr;
  if (!dtype_name || dtype_bytes(*dtype_name) == 0) {
    return unusable(where + ": its dtype is missing or unknown");
  }
  entry.tensor.dtype = *dtype_name;
  entry.tensor.shape = TRY(read_numbers(value.find("shape"), where + ": shape"));
  const auto offsets = TRY(read_numbers(value.find("data_offsets"), where + ": data_offsets"));
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_bytes) {
    return unusable(
        fmt::format("{}: data_offsets do not lie within the {} bytes of data", where, data_bytes),
        "the whole file: this one may have been cut off");
  }
  entry.begin = offsets[0];
  entry.end = offsets[1];
  if (wanted_bytes(*dtype_name, entry.tensor.shape) != entry.end - entry.begin) {
    return unusable(fmt::format("{}: {} bytes do not fit its shape and dtype {}", where,
                                entry.end - entry.begin, *dtype_name));
  }
  return entry;
}

Result<Metadata> read_metadata(const Value& value, const std::string& name) {
  const Value::Table* table = value.get<Value::Table>();
  if (!table) return unusable(name + ": __metadata__: wanted a table of texts");
  Metadata out;
  for (const auto& [key, item] : *table) {
    const std::string* text = item.get<std::string>();
    if (!text) return unusable(fmt::format("{}: __metadata__.{}: wanted a text", name, key));
    out.emplace_back(key, *text);
  }
  return out;
}

// The entries must tile the data: no gap, no overlap, nothing left over.
Status check_tiling(const std::vector<Entry>& entries, int64_t data_bytes,
                    const std::string& name) {
  int64_t next = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != next) {
      return unusable(fmt::format("{}: tensor \"{}\" begins at byte {} where {} was due", name,
                                  entry.tensor.name, entry.begin, next));
    }
    next = entry.end;
  }
  if (next != data_bytes) {
    return unusable(
        fmt::format("{}: {} bytes of data belong to no tensor", name, data_bytes - next));
  }
  return {};
}

}  // namespace

int64_t dtype_bytes(std::string_view dtype) {
  constexpr std::array<std::pair<std::string_view, int64_t>, 15> kSizes = {{{"BOOL", 1},
                                                                            {"U8", 1},
                                                                            {"I8", 1},
                                                                            {"F8_E5M2", 1},
                                                                            {"F8_E4M3", 1},
                                                                            {"I16", 2},
                                                                            {"U16", 2},
                                                                            {"F16", 2},
                                                                            {"BF16", 2},
                                                                            {"I32", 4},
                                                                            {"U32", 4},
                                                                            {"F32", 4},
                                                                            {"I64", 8},
                                                                            {"U64", 8},
                                                                            {"F64", 8}}};
  for (const auto& [name, size] : kSizes) {
    if (name == dtype) return size;
  }
  return 0;
}

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string& path,
                                                    std::vector<TensorShape> tensors,
                                                    const Metadata& metadata) {
  int64_t all = 0;
  for (const TensorShape& tensor : tensors) {
    const std::optional<int64_t> size = wanted_bytes(tensor.dtype, tensor.shape);
    if (!size || __builtin_add_overflow(all, *size, &all)) {
      return unusable(fmt::format("{}: tensor \"{}\" is too large for a file", path, tensor.name));
    }
  }
  const std::string header = header_text(tensors, metadata);
  SafetensorsWriter writer(TRY(AtomicFile::create(path)), path);
  TRY(writer.write(length_text(header)));
  TRY(writer.write(header));
  int64_t offset = writer.written_.bytes;
  for (TensorShape& tensor : tensors) {
    const int64_t size = *wanted_bytes(tensor.dtype, tensor.shape);
    writer.written_.tensors.push_back({.name = std::move(tensor.name),
                                       .dtype = std::move(tensor.dtype),
                                       .shape = std::move(tensor.shape),
                                       .offset = offset,
                                       .bytes = size,
                                       .digest = {}});
    offset += size;
  }
  writer.tensor_digest_.emplace();
  writer.end_tensors();
  return writer;
}

Status SafetensorsWriter::write(std::string_view bytes) {
  digest_.add(bytes);
  written_.bytes += static_cast<int64_t>(bytes.size());
  return file_.write(bytes);
}

// Those of no bytes among them.
void SafetensorsWriter::end_tensors() {
  for (; added_ < written_.tensors.size(); ++added_) {
    TensorPlace& tensor = written_.tensors[added_];
    if (written_.bytes < tensor.offset + tensor.bytes) return;
    tensor.digest = tensor_digest_->text();
    tensor_digest_.emplace();
  }
}

Status SafetensorsWriter::add(std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  CHECK(added_ < written_.tensors.size(), "{} tensors and one more", added_);
  const TensorPlace& tensor = written_.tensors[added_];
  CHECK(written_.bytes == tensor.offset && tensor.bytes == static_cast<int64_t>(bytes.size()),
        "{} has {} bytes for another shape", tensor.name, bytes.size());
  return append(bytes);
}

Status SafetensorsWriter::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    CHECK(added_ < written_.tensors.size(), "{} tensors and {} bytes more", added_, bytes.size());
    const TensorPlace& tensor = written_.tensors[added_];
    const auto left = static_cast<size_t>(tensor.offset + tensor.bytes - written_.bytes);
    // Twice hashed and once written while it is in the cache.
    const std::span<const std::byte> piece = bytes.first(std::min({bytes.size(), left, kPiece}));
    tensor_digest_->add(as_text(piece));
    TRY(write(as_text(piece)));
    end_tensors();
    bytes = bytes.subspan(piece.size());
  }
  return {};
}

Result<WrittenFile> SafetensorsWriter::finish(const PathOfDigest& path) {
  CHECK(added_ == written_.tensors.size(), "{} of {} tensors were written", added_,
        written_.tensors.size());
  written_.digest = digest_.text();
  if (path) written_.path = path(written_.digest);
  TRY(file_.commit_as(written_.path));
  return std::move(written_);
}

Result<TensorPlaces> find_tensors(std::string_view bytes, const std::string& name) {
  if (bytes.size() < kLengthBytes) {
    return unusable(
        fmt::format("{}: {} bytes are too few for a safetensors file", name, bytes.size()));
  }
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  bytes.remove_prefix(kLengthBytes);
  if (length > kHeaderMax || length > bytes.size()) {
    return unusable(
        fmt::format("{}: a header of {} bytes does not fit into the file", name, length));
  }
  const Value header = TRY(parse_json(bytes.substr(0, length), name));
  const auto data_bytes = static_cast<int64_t>(bytes.size() - length);
  const Value::Table* table = header.get<Value::Table>();
  if (!table) return unusable(name + ": the header is not a table");

  TensorPlaces places;
  std::vector<Entry> entries;
  for (const auto& [key, value] : *table) {
    if (key == kMetadataKey) {
      places.metadata = TRY(read_metadata(value, name));
    } else {
      entries.push_back(TRY(read_entry(key, value, data_bytes, name)));
    }
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  TRY(check_tiling(entries, data_bytes, name));
  for (Entry& entry : entries) {
    places.tensors.push_back({.name = std::move(entry.tensor.name),
                              .dtype = std::move(entry.tensor.dtype),
                              .shape = std::move(entry.tensor.shape),
                              .offset = static_cast<int64_t>(kLengthBytes + length) + entry.begin,
                              .bytes = entry.end - entry.begin,
                              .digest = {}});
  }
  return places;
}

Result<TensorFile> parse_safetensors(std::string_view bytes, const std::string& name) {
  TensorPlaces places = TRY(find_tensors(bytes, name));
  TensorFile file;
  file.metadata = std::move(places.metadata);
  for (TensorPlace& place : places.tensors) {
    const auto* first = reinterpret_cast<const std::byte*>(bytes.data()) + place.offset;
    file.tensors.push_back({std::move(place.name), std::move(place.dtype), std::move(place.shape),
                            kernels::Payload(first, first + place.bytes)});
  }
  return file;
}

Result<TensorFile> read_safetensors(const std::string& path) {
  const std::string bytes = TRY(read_file(path, kFileMax));
  return parse_safetensors(bytes, path);
}

}  // namespace tombolo::state
