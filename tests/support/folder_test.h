// For tests that write files: each has a folder of its own, which goes with it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "base/check.h"

namespace tombolo {

class FolderTest : public testing::Test {
 protected:
  FolderTest() {
    folder_ = testing::TempDir() + "tombolo.XXXXXX";
    CHECK(mkdtemp(folder_.data()), "no folder {}", folder_);
  }
  ~FolderTest() override { std::filesystem::remove_all(folder_); }

  std::string at(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

}  // namespace tombolo
