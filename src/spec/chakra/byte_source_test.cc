#include "spec/chakra/byte_source.h"

#include <gtest/gtest.h>

namespace tombolo::chakra {
namespace {

TEST(ByteSource, ConsumesWhatIsVisible) {
  ByteSource source = ByteSource::over("abc");
  source.consume(1);
  EXPECT_EQ(source.visible(), "bc");
  EXPECT_EQ(source.position(), 1u);
  EXPECT_TRUE(source.want(2));
  EXPECT_FALSE(source.want(3));
  EXPECT_DEATH(source.consume(3), "3 bytes of 2");
  source.consume(2);
  EXPECT_TRUE(source.visible().empty());
}

}  // namespace
}  // namespace tombolo::chakra
