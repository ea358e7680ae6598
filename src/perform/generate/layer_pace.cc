#include "perform/generate/layer_pace.h"

namespace tombolo::generate {
namespace {

constexpr int kRefusedMax = 8;

}  // namespace

bool LayerPace::fits(const LayerWork& work, SimTime until, SimTime now) {
  const SimDuration left = until - now;
  if (times_.expect(work) <= left) {
    refused_ = 0;
    return true;
  }
  if (left.ns <= 0 || until == refused_until_) return false;
  refused_until_ = until;
  if (++refused_ % kRefusedMax == 0) times_.forget_slowest(work);
  return false;
}

void LayerPace::doubt() {
  if (++doubts_ % kRefusedMax == 0) times_.forget_slowest_of_each();
}

}  // namespace tombolo::generate
