#include "perform/text/text_encoder.h"

#include "base/file.h"
#include "perform/text/sentence_pieces.h"
#include "perform/text/tokenizer.h"

namespace tombolo::text {

Result<std::unique_ptr<TextEncoder>> read_tokenizer(const std::string& path) {
  return parse_tokenizer(TRY(read_file(path)), path);
}

Result<std::unique_ptr<TextEncoder>> parse_tokenizer(std::string_view file,
                                                     const std::string& name) {
  file = without_byte_order_mark(file);
  const size_t begin = file.find_first_not_of(" \t\r\n");
  // Models of SentencePiece are protocol buffers: the first byte is the tag of a field.
  const bool is_json = begin != std::string_view::npos && file[begin] == '{';
  if (is_json || name.ends_with(".json"))
    return std::make_unique<Tokenizer>(TRY(Tokenizer::parse(file, name)));
  return std::make_unique<SentencePieces>(TRY(SentencePieces::parse(file, name)));
}

}  // namespace tombolo::text
