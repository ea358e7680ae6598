// TensorBoard's event files, as tf.summary and torch.utils.tensorboard write them.
//
// A file is a run of records: the length (8 bytes), its checksum, the bytes, their checksum, all
// little-endian; checksums are CRC-32C, rotated and shifted ("masked") so that a record may hold
// records. The bytes are a protobuf message Event: wall_time = 1, step = 2, file_version = 3,
// summary = 5 {value = 1 {tag = 1, simple_value = 2}}, session_log = 7 {status = 1}.
// Source: tensorflow/core/util/event.proto, tensorflow/core/lib/io/record_writer.h,
// tensorflow/core/lib/hash/crc32c.h. Values after a session that starts at a step replace what
// TensorBoard has of that step and later ones, so repeated steps are shown once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tombolo::board {

uint32_t crc32c(std::string_view bytes);

struct Scalar {
  std::string tag;
  double value = 0;
};

// Records, each ready to be appended to a file. Wall time in seconds since 1970.
std::string version_record(double wall_time);  // the first of every file
std::string start_record(double wall_time, int64_t step);
std::string scalars_record(double wall_time, int64_t step, std::span<const Scalar> scalars);

}  // namespace tombolo::board
