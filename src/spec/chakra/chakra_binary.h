// Chakra's messages as protobuf: one message <-> the bytes of one frame, without its length.
//
// Fields that are not known are passed over, so that files of later schemas can be read; numbers
// may be packed or not. What is written is what protobuf's own libraries write: fields ascending,
// zeros left out, lists packed.
#pragma once

#include <string>
#include <string_view>

#include "spec/chakra/chakra_message.h"

namespace tombolo::chakra {

// A message takes at most this much memory, whatever it claims.
inline constexpr size_t kMessageLimit = size_t{64} << 20;  // bytes of a message
inline constexpr size_t kListLimit = size_t{1} << 22;      // elements of its lists together
inline constexpr size_t kAttributeLimit = size_t{1} << 16;

// Replaces what the message held, using its memory again. Returns why not, or "" where all is well.
std::string decode(std::string_view bytes, ChakraMetadata& metadata);
std::string decode(std::string_view bytes, ChakraNode& node);

// Appends.
void encode(const ChakraMetadata& metadata, std::string& out);
void encode(const ChakraNode& node, std::string& out);

}  // namespace tombolo::chakra
