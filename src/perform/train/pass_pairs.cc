#include "perform/train/pass_pairs.h"

#include <future>
#include <optional>
#include <utility>

#include "perform/train/guarded.h"

namespace tombolo::train {
namespace {

using kernels::Payload;

constexpr const char* kDoing[] = {"computing a forward pass", "computing a backward pass"};

// Of both sides; nothing where a side has not come to its end.
class Ends {
 public:
  explicit Ends(const kernels::PairResults& results) : results_(results) {}

  void perform(size_t side, const PassPairs::Work& work) {
    made_[side] = guarded(kDoing[side], work);
  }
  // Also where the other has failed: a neighbour waits for this one.
  void hand_over(size_t side) {
    if (!made_[side]) return;
    const auto give = [&]() -> Status {
      Payload payload = TRY(*std::exchange(made_[side], std::nullopt));
      return side == 0 ? results_.forward(std::move(payload))
                       : results_.backward(std::move(payload));
    };
    const Status given = give();
    if (status_) status_ = given;
  }
  const Status& status() const { return status_; }

 private:
  const kernels::PairResults& results_;
  std::optional<Result<Payload>> made_[PassPairs::kStrands];
  Status status_;
};

}  // namespace

// One more hands results over where operators are arranged.
PassPairs::PassPairs() : threads_(kStrands + 1) {}

void PassPairs::arrange(std::vector<ShardTeam*> teams) {
  arranged_ = std::make_unique<StagePairs>(std::move(teams));
}

Status PassPairs::run(const Works& passes, const kernels::PairResults& results) {
  Ends ends(results);
  const StrandThreads::Work works[] = {[&] { ends.perform(0, passes.forward); },
                                       [&] { ends.perform(1, passes.backward); }};
  threads_.run(works, [&](size_t side) { ends.hand_over(side); });
  return ends.status();
}

// A third thread performs the operators; the other two wait for their passes, and make results of them.
Status PassPairs::run(std::span<StagePass* const> forward, std::span<StagePass* const> backward,
                      std::span<const std::string> order, const Works& last,
                      const kernels::PairResults& results) {
  Ends ends(results);
  std::promise<bool> through[kStrands];
  bool told[kStrands] = {};
  const auto tell = [&](size_t side, bool is_through) {
    if (!std::exchange(told[side], true)) through[side].set_value(is_through);
  };
  Status performed;
  const StrandThreads::Work works[] = {
      [&] {
        if (through[0].get_future().get()) ends.perform(0, last.forward);
      },
      [&] {
        if (through[1].get_future().get()) ends.perform(1, last.backward);
      },
      [&] {
        performed = guarded("computing two passes at once", [&]() -> Status {
          arranged_->run(forward, backward, order,
                         {[&] { tell(0, true); }, [&] { tell(1, true); }});
          return {};
        });
        for (const size_t side : {0, 1}) tell(side, false);
      }};
  threads_.run(works, [&](size_t which) {
    if (which < kStrands) ends.hand_over(which);
  });
  TRY(std::move(performed));
  return ends.status();
}

}  // namespace tombolo::train
