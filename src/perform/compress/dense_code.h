// All numbers of a tensor as bytes, block after block (quantise.h), without the numbers of blocks that
// update_code.h has. Little-endian:
//
//   offset  bytes
//        0  4   "TbDU"
//        4  1   version, 1
//        5  1   values (quantise.h), or 255: fp32, as they are
//        6  2   zero
//        8  8   elements of the tensor
//       16  8   zero
//       24  ..  scales, 1 byte a block; none for bf16 and fp32
//           ..  codes, 64, 32, 16, 8 or 4 bytes a block; those beyond the tensor's end are those of zeros
//
// Cost: one pass over the numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "perform/compress/quantise.h"

namespace tombolo::compress {

// No values: fp32. Fails, and says how many, if numbers are not finite. No residual keeps what rounding
// loses.
Result<std::vector<std::byte>> encode_dense(std::span<const float> numbers,
                                            std::optional<Values> values);

// Decodes what encode_dense() made of `length` elements, or says why it is not that. Memory: at most 8
// bytes for each of the message's, and none before its length was found to be right. Numbers that are not
// finite are refused.
Result<std::vector<float>> decode_dense(std::span<const std::byte> message, int64_t length);

}  // namespace tombolo::compress
