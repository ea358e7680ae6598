// A regular expression that cuts texts into pieces, as tokenizers have them. By Oniguruma, which
// Hugging Face's tokenizers use, too; the library's Unicode version decides what is a letter.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tombolo::text {

class SplitPattern {
 public:
  // `literal`: the pattern is the text to find. Unusable, in Oniguruma's words, where it is no
  // expression.
  static Result<SplitPattern> compile(const std::string& pattern, bool literal = false);
  SplitPattern(SplitPattern&&) noexcept;
  SplitPattern& operator=(SplitPattern&&) noexcept;
  ~SplitPattern();

  // All of `text`, which is valid UTF-8, in its order: what matches and what lies between. No piece
  // is empty: where nothing is matched, the text is cut. Ends at the first error of `piece`. Not for several threads at once.
  using Piece = std::function<Status(std::string_view piece, bool matches)>;
  Status split(std::string_view text, const Piece& piece) const;

 private:
  struct Compiled;
  explicit SplitPattern(std::unique_ptr<Compiled> compiled);
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace tombolo::text
