#include "perform/text/sentence_pieces.h"

#include <sentencepiece_processor.h>

#include <charconv>

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

std::string SentencePieces::bytes_of(int64_t id) const {
  if (id < 0 || id >= model_->GetPieceSize()) return "";
  const int piece = static_cast<int>(id);
  if (model_->IsControl(piece) || model_->IsUnknown(piece)) return "";
  std::string text = model_->IdToPiece(piece);
  if (model_->IsByte(piece)) {  // "<0x0A>", unless the model is a strange one
    unsigned byte = 0;
    const char* end = text.data() + text.size();
    if (text.size() != 6 || std::from_chars(text.data() + 3, end, byte, 16).ptr + 1 != end)
      return "";
    return std::string(1, static_cast<char>(byte));
  }
  constexpr std::string_view kSpace = "\u2581";
  for (size_t at = 0; (at = text.find(kSpace, at)) != std::string::npos; ++at)
    text.replace(at, kSpace.size(), " ");
  return text;
}

std::optional<int64_t> SentencePieces::id_of(const std::string& token) const {
  const int id = model_->PieceToId(token);
  if (id < 0 || id >= model_->GetPieceSize() || model_->IdToPiece(id) != token)
    return std::nullopt;  // the library answers the unknown token's
  return id;
}

int64_t SentencePieces::vocabulary() const { return model_->GetPieceSize(); }

}  // namespace tombolo::text
