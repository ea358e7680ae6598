#include "predict/strand/stream_picture.h"

#include <gtest/gtest.h>

namespace tombolo::strand {
namespace {

TEST(StreamPicture, DrawsALinePerStreamInUse) {
  Dag forward, backward;
  forward.add({.name = "QKV", .seconds = 6});
  backward.add({.name = "bAG", .kind = Kind::kTensor, .stream = Stream::kLocal, .seconds = 5});
  const StrandPair pair(forward, backward, OverlapTable{});
  const std::vector<OperatorRun> runs{{0, 0, 6}, {1, 4, 9}};
  EXPECT_EQ(picture(pair, runs, 10, 10),
            "  compute |QKV--    |\n"
            "  local       |bAG= |\n");
}

}  // namespace
}  // namespace tombolo::strand
