#include "perform/text/sentence_pieces.h"

#include <sentencepiece_processor.h>

#include "perform/text/unicode_text.h"

namespace tombolo::text {
namespace {

constexpr size_t kDocumentMax = size_t{64} << 20;

std::string reason(const sentencepiece::util::Status& status) {
  return std::string(status.message());
}

}  // namespace

SentencePieces::SentencePieces(std::unique_ptr<sentencepiece::SentencePieceProcessor> model)
    : model_(std::move(model)) {}
SentencePieces::SentencePieces(SentencePieces&&) noexcept = default;
SentencePieces::~SentencePieces() = default;

Result<SentencePieces> SentencePieces::parse(std::string_view model, const std::string& name) {
  auto processor = std::make_unique<sentencepiece::SentencePieceProcessor>();
  const auto read =
      model.empty()
          ? sentencepiece::util::Status(sentencepiece::util::StatusCode::kDataLoss, "empty")
          : processor->LoadFromSerializedProto({model.data(), model.size()});
  if (!read.ok() || processor->GetPieceSize() <= 0) {
    return unusable(fmt::format("{}: no tokenizer.json, and no model of SentencePiece: {}", name,
                                read.ok() ? "it has no pieces" : reason(read)),
                    "the tokenizer.json or tokenizer.model of a model on Hugging Face");
  }
  return SentencePieces(std::move(processor));
}

Result<std::vector<int64_t>> SentencePieces::encode(std::string_view text) {
  TRY(check_utf8(text));
  if (text.size() > kDocumentMax) {
    return unusable(fmt::format("a document of {} bytes: SentencePiece takes {} here", text.size(),
                                kDocumentMax),
                    "several documents, as the lines of a .jsonl");
  }
  std::vector<int> pieces;
  const auto encoded = model_->Encode({text.data(), text.size()}, &pieces);
  if (!encoded.ok()) return failed("SentencePiece: " + reason(encoded));
  return std::vector<int64_t>(pieces.begin(), pieces.end());
}

std::optional<int64_t> SentencePieces::id_of(const std::string& token) const {
  const int id = model_->PieceToId(token);
  if (id < 0 || id >= model_->GetPieceSize() || model_->IdToPiece(id) != token)
    return std::nullopt;  // the library answers the unknown token's
  return id;
}

int64_t SentencePieces::vocabulary() const { return model_->GetPieceSize(); }

}  // namespace tombolo::text
