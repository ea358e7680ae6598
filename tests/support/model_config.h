// config.json of checkpoints in tests.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "spec/model/config_json.h"

namespace tombolo::model {

// `text` with one piece replaced.
inline std::string changed(const std::string& from, const std::string& to, std::string text) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

inline ModelSection read_config(const std::string& text) {
  const Result<ModelSection> section = parse_config_json(text, "config.json");
  EXPECT_TRUE(section) << section.error().text();
  return section ? *section : ModelSection{};
}

inline std::string config_complaint(const std::string& text) {
  const Result<ModelSection> section = parse_config_json(text, "config.json");
  if (section) return "accepted";
  EXPECT_EQ(section.error().code, ErrorCode::kUnusable);
  return section.error().text();
}

}  // namespace tombolo::model
