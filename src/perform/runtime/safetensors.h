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

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "perform/runtime/kernels.h"

namespace tombolo::runtime {

// In the order in which they were written.
using Metadata = std::vector<std::pair<std::string, std::string>>;

struct TensorFile {
  Metadata metadata;
  std::vector<NamedTensor> tensors;  // in the order of their bytes
};

// What a finished file is, for the manifest that vouches for it.
struct WrittenFile {
  int64_t bytes = 0;
  std::string digest;
};

// Bytes of one element of a dtype ("F32": 4), or 0 for a name the format does not have.
int64_t dtype_bytes(std::string_view dtype);

// Written piece by piece, without a second copy in memory, and whole or not at all (AtomicFile).
// CHECKs that every tensor's bytes fit its shape and that names differ.
Result<WrittenFile> write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                                      const Metadata& metadata = {});

// `name` is the file's name in messages. Cost: one copy of the tensors.
Result<TensorFile> parse_safetensors(std::string_view bytes, const std::string& name);
Result<TensorFile> read_safetensors(const std::string& path);

}  // namespace tombolo::runtime
