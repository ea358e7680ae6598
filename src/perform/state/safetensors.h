// safetensors: the file format of named arrays that the model world shares.
//
//   8 bytes   N, little-endian: the length of the header
//   N bytes   JSON: {"__metadata__": {text: text}, "name": {"dtype": "F32", "shape": [2, 3],
//             "data_offsets": [0, 24]}, ...}, padded with spaces
//   the rest  the arrays, row-major, little-endian, one after the other without a gap
//
// Source: https://github.com/huggingface/safetensors, "Format". The reader believes no length
// before it was checked against the file's own: not the header's, no shape's product, no offset.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/result.h"
#include "perform/kernels/kernels.h"

namespace tombolo::state {

// In the order in which they were written.
using Metadata = std::vector<std::pair<std::string, std::string>>;

struct TensorFile {
  Metadata metadata;
  std::vector<kernels::NamedTensor> tensors;  // in the order of their bytes
};

// Where a tensor lies in a file, and what its bytes are: enough to read it alone, and to know that
// it is the one that was written.
struct TensorPlace {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  int64_t offset = 0;  // from the file's beginning
  int64_t bytes = 0;
  std::string digest;  // of these bytes

  bool operator==(const TensorPlace&) const = default;
};

// What a finished file is, for the manifest that vouches for it.
struct WrittenFile {
  std::string path;
  int64_t bytes = 0;
  std::string digest;
  std::vector<TensorPlace> tensors;
};

// Bytes of one element of a dtype ("F32": 4), or 0 for a name the format does not have.
int64_t dtype_bytes(std::string_view dtype);

// A tensor before its bytes are there.
struct TensorShape {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
};

// The path of a file whose name contains its digest, in the folder where it was created.
using PathOfDigest = std::function<std::string(const std::string& digest)>;

// Writes a file whose tensors need not lie in memory together: the header first, then the bytes of
// each, in the order of `tensors`. The file is there once finish() has returned, whole or not at
// all (AtomicFile).
class SafetensorsWriter {
 public:
  // CHECKs that names differ and dtypes are known. Unusable for sizes beyond 63 bits.
  static Result<SafetensorsWriter> create(const std::string& path, std::vector<TensorShape> tensors,
                                          const Metadata& metadata = {});
  // All bytes of the next tensor. CHECKs that it has this many.
  Status add(std::span<const std::byte> bytes);
  // The next bytes, which may span several tensors. CHECKs that this many are still to come.
  Status append(std::span<const std::byte> bytes);
  // CHECKs that all tensors were added. `path`: another name than at first.
  Result<WrittenFile> finish(const PathOfDigest& path = {});

 private:
  SafetensorsWriter(AtomicFile file, std::string path) : file_(std::move(file)) {
    written_.path = std::move(path);
  }
  Status write(std::string_view bytes);
  void end_tensors();

  AtomicFile file_;
  WrittenFile written_;  // its tensors, without the digests of those that are not complete
  RunningDigest digest_;
  size_t added_ = 0;                            // complete tensors
  std::optional<RunningDigest> tensor_digest_;  // of the incomplete one
};

// Where the tensors of a file lie, without their bytes and digests.
struct TensorPlaces {
  Metadata metadata;
  std::vector<TensorPlace> tensors;  // in the order of their bytes
};

// `bytes` is the whole file, of which the header alone is looked at; `name` stands in messages.
// Unusable where the file was cut, where tensors overlap or leave gaps, and where a shape, a dtype
// and a length do not fit each other.
Result<TensorPlaces> find_tensors(std::string_view bytes, const std::string& name);

// `name` is the file's name in messages. Cost: one copy of the tensors.
Result<TensorFile> parse_safetensors(std::string_view bytes, const std::string& name);
Result<TensorFile> read_safetensors(const std::string& path);

}  // namespace tombolo::state
