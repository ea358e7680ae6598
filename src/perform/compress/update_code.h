// A sparse update as bytes, little-endian:
//
//   offset  bytes
//        0  4   "TbSU"
//        4  1   version, 1
//        5  1   values (quantise.h)
//        6  2   zero
//        8  8   elements of the tensor
//       16  4   blocks
//       20  4   bytes of their numbers
//       24  ..  numbers: how many blocks were left out since the one before, 7 bits a byte, the lowest
//               first, bit 7 set where more follow; at most 5 bytes, none of which is superfluous
//           ..  scales, 1 byte a block; none for bf16
//           ..  codes, 32, 16, 8 or 4 bytes a block
//
// At 1 % of the blocks a number takes 1.3 bytes. An update has one encoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "perform/compress/quantise.h"

namespace tombolo::compress {

// Ids ascend and lie within the tensor, columns have the lengths that belong together.
std::vector<std::byte> encode(const PackedBlocks& update);

// What encode() made, of a tensor of `length` elements, with no more than `blocks_max` blocks; or why
// it is not. Nothing is allocated before the message was found long enough to hold it: memory is at
// most 5 bytes for each of the message's. A bf16 value that is not finite is refused.
Result<PackedBlocks> decode(std::span<const std::byte> message, int64_t length, int64_t blocks_max);

}  // namespace tombolo::compress
