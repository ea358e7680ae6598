// Several backends with the same model, such as the prompt pipelines of a run: a prompt goes to the one with the
// fewest under way, and if that one refuses it (no gap, no room, no worker) to the next.
//
//   refused by all for want of room          the refusal of the first that was asked
//   refused for another reason               at once
//   lost before its first token              asked again of the others, once; else lost
//
// It answers as long as one of them does.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ui/serve/backend.h"

namespace tombolo::serve {

class PoolBackend final : public Backend {
 public:
  // One at least. Outlives its answers.
  explicit PoolBackend(std::vector<std::unique_ptr<Backend>> all);

  tl::expected<std::unique_ptr<Answer>, generate::Refused> admit(
      generate::Request request) override;
  bool alive() const override;
  bool ready() const override;
  std::string end() const override;

 private:
  class Pooled;
  struct Taken {
    size_t by = 0;
    std::unique_ptr<Answer> answer;
  };
  static constexpr size_t kNobody = ~size_t{0};

  // `but`: not of this one.
  tl::expected<Taken, generate::Refused> ask(const generate::Request& request, size_t but);
  std::vector<size_t> idlest_first() const;
  void count(size_t by, int64_t change);

  const std::vector<std::unique_ptr<Backend>> all_;
  mutable std::mutex mutex_;
  std::vector<int64_t> under_way_;
};

}  // namespace tombolo::serve
