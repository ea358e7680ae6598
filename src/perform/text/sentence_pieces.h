// Texts to token ids by a model of SentencePiece, unigram or BPE: the tokenizer.model of Llama 2,
// Mistral, Gemma or T5.
//
// Kudo, Richardson: SentencePiece (2018). Its own library computes; normalization, spaces before
// words and byte fallback are as the model says. Control symbols (<s>, </s>) that stand in a text
// are text.
#pragma once

#include <memory>

#include "perform/text/text_encoder.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace tombolo::text {

class SentencePieces final : public TextEncoder {
 public:
  // Unusable where the library does not take it.
  static Result<SentencePieces> parse(std::string_view model, const std::string& name);
  SentencePieces(SentencePieces&&) noexcept;
  ~SentencePieces() override;

  // Also unusable beyond 64 MiB: the library keeps some hundred bytes for each.
  Result<std::vector<int64_t>> encode(std::string_view text) override;
  Result<std::vector<int64_t>> encode_plain(std::string_view text) override { return encode(text); }
  std::string bytes_of(int64_t id) const override;
  std::optional<int64_t> id_of(const std::string& token) const override;
  int64_t vocabulary() const override;

 private:
  explicit SentencePieces(std::unique_ptr<sentencepiece::SentencePieceProcessor> model);

  std::unique_ptr<sentencepiece::SentencePieceProcessor> model_;
};

}  // namespace tombolo::text
