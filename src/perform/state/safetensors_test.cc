#include "perform/state/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "base/hash.h"

namespace tombolo::state {
namespace {

// All at once.
Result<WrittenFile> write_safetensors(const std::string& path,
                                      std::span<const kernels::NamedTensor> tensors,
                                      const Metadata& metadata = {}) {
  std::vector<TensorShape> shapes;
  for (const kernels::NamedTensor& tensor : tensors) {
    shapes.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  SafetensorsWriter writer = TRY(SafetensorsWriter::create(path, std::move(shapes), metadata));
  for (const kernels::NamedTensor& tensor : tensors) TRY(writer.add(tensor.bytes));
  return writer.finish();
}

using ::testing::HasSubstr;

kernels::Payload bytes_of(std::string_view text) {
  kernels::Payload out;
  for (const char c : text) out.push_back(static_cast<std::byte>(c));
  return out;
}

// A file with this header and this many bytes of data.
std::string file_with(std::string_view header, size_t data_bytes) {
  std::string out(8, '\0');
  for (size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(header.size() >> (8 * i));
  out += header;
  out.append(data_bytes, 'x');
  return out;
}

std::string refusal(const std::string& bytes) {
  const auto file = parse_safetensors(bytes, "shard");
  return file ? "accepted" : file.error().text();
}

class Safetensors : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "safetensors.XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

// One tensor after the other or all at once: the same file.
TEST_F(Safetensors, IsWrittenTensorByTensorToo) {
  const std::vector<kernels::NamedTensor> tensors = {{"a", "F32", {1, 2}, bytes_of("abcdefgh")},
                                                     {"b", "BF16", {3}, bytes_of("123456")}};
  const Metadata metadata = {{"format", "pt"}};
  ASSERT_TRUE(write_safetensors(folder_ + "/whole", tensors, metadata));
  {
    auto writer = SafetensorsWriter::create(folder_ + "/parts",
                                            {{"a", "F32", {1, 2}}, {"b", "BF16", {3}}}, metadata);
    ASSERT_TRUE(writer) << writer.error().text();
    for (const kernels::NamedTensor& tensor : tensors) ASSERT_TRUE(writer->add(tensor.bytes));
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/parts")) << "it is not finished";
    const auto written = writer->finish();
    ASSERT_TRUE(written) << written.error().text();
    EXPECT_EQ(written->bytes, static_cast<int64_t>(std::filesystem::file_size(folder_ + "/whole")));
  }
  EXPECT_EQ(*read_file(folder_ + "/parts"), *read_file(folder_ + "/whole"));
  const std::string bytes = *read_file(folder_ + "/parts");
  const auto places = find_tensors(bytes, "parts");
  ASSERT_TRUE(places) << places.error().text();
  ASSERT_EQ(places->tensors.size(), 2u);
  EXPECT_EQ(bytes.substr(static_cast<size_t>(places->tensors[1].offset), 6), "123456");
  const auto large =
      SafetensorsWriter::create(folder_ + "/large", {{"a", "F32", {int64_t{1} << 40, 1 << 30}}});
  ASSERT_FALSE(large);
  EXPECT_THAT(large.error().text(), HasSubstr("tensor \"a\" is too large"));
}

// In pieces that end where they like, and under a name that the bytes choose.
TEST_F(Safetensors, IsWrittenInAnyPieces) {
  const std::vector<kernels::NamedTensor> tensors = {{"empty", "F32", {0}, {}},
                                                     {"a", "F32", {1, 2}, bytes_of("abcdefgh")},
                                                     {"none", "F32", {0}, {}},
                                                     {"b", "BF16", {3}, bytes_of("123456")},
                                                     {"last", "F32", {0}, {}}};
  const auto whole = write_safetensors(folder_ + "/whole", tensors);
  ASSERT_TRUE(whole) << whole.error().text();
  for (const size_t size : {1u, 3u, 8u, 14u}) {
    std::vector<TensorShape> shapes;
    kernels::Payload all;
    for (const kernels::NamedTensor& each : tensors) {
      shapes.push_back({each.name, each.dtype, each.shape});
      all.insert(all.end(), each.bytes.begin(), each.bytes.end());
    }
    auto writer = SafetensorsWriter::create(folder_ + "/unfinished", shapes);
    ASSERT_TRUE(writer) << writer.error().text();
    for (std::span<const std::byte> rest = all; !rest.empty();
         rest = rest.subspan(std::min(size, rest.size())))
      ASSERT_TRUE(writer->append(rest.first(std::min(size, rest.size()))));
    const auto written =
        writer->finish([&](const std::string& digest) { return folder_ + "/" + digest; });
    ASSERT_TRUE(written) << written.error().text();
    EXPECT_EQ(written->path, folder_ + "/" + whole->digest);
    EXPECT_EQ(written->digest, whole->digest);
    EXPECT_EQ(written->tensors, whole->tensors);
    EXPECT_EQ(written->tensors[3].digest, digest("123456"));
    EXPECT_EQ(*read_file(written->path), *read_file(folder_ + "/whole"));
  }
}

TEST_F(Safetensors, WhatWasWrittenIsReadBack) {
  const std::vector<kernels::NamedTensor> tensors = {
      {"layers.0.weight", "F32", {1, 2}, bytes_of("abcdefgh")},
      {"steps", "I64", {}, bytes_of("12345678")},  // a scalar: one element
      {"empty", "BF16", {0, 7}, {}},
  };
  const std::string path = folder_ + "/rank-0.safetensors";
  const auto written = write_safetensors(path, tensors, {{"format", "tombolo"}});
  ASSERT_TRUE(written) << written.error().text();

  const auto bytes = read_file(path);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(written->bytes, static_cast<int64_t>(bytes->size()));
  EXPECT_EQ(written->digest, digest(*bytes));
  EXPECT_EQ((bytes->size() - 16) % 8, 0u) << "the data begins on a multiple of 8";

  const auto read = read_safetensors(path);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->metadata, (Metadata{{"format", "tombolo"}}));
  ASSERT_EQ(read->tensors.size(), 3u);
  for (const kernels::NamedTensor& tensor : tensors) {
    const auto same = [&](const kernels::NamedTensor& other) {
      return other.name == tensor.name && other.dtype == tensor.dtype &&
             other.shape == tensor.shape && other.bytes == tensor.bytes;
    };
    EXPECT_EQ(std::count_if(read->tensors.begin(), read->tensors.end(), same), 1) << tensor.name;
  }
}

TEST_F(Safetensors, TheLayoutIsTheReferenceImplementations) {
  // {"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}} has 53 characters; padded to 56 = 0x38.
  const std::vector<kernels::NamedTensor> tensors = {{"a", "U8", {3}, bytes_of("xyz")}};
  const std::string path = folder_ + "/a.safetensors";
  ASSERT_TRUE(write_safetensors(path, tensors));
  EXPECT_EQ(*read_file(path), std::string("\x38\0\0\0\0\0\0\0", 8) +
                                  R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})" +
                                  "   " + "xyz");
}

TEST_F(Safetensors, AFolderThatIsMissingIsNamed) {
  const auto written = write_safetensors(folder_ + "/no/such/file", {});
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().text(), HasSubstr("/no/such/file"));
}

TEST(HostileSafetensors, AreRefusedByName) {
  EXPECT_THAT(refusal("abc"), HasSubstr("3 bytes are too few"));
  EXPECT_THAT(refusal(std::string(8, '\xff')), HasSubstr("does not fit into the file"));
  EXPECT_THAT(refusal(std::string("\x09\0\0\0\0\0\0\0{}", 10)), HasSubstr("does not fit"));
  EXPECT_THAT(refusal(file_with("[]", 0)), HasSubstr("not a table"));
  const auto tensor = [](std::string_view dtype, std::string_view shape, std::string_view offsets) {
    return fmt::format(R"({{"t":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", dtype, shape,
                       offsets);
  };
  EXPECT_EQ(refusal(file_with(tensor("F32", "[2]", "[0,8]"), 8)), "accepted");
  EXPECT_THAT(refusal(file_with(tensor("F99", "[2]", "[0,8]"), 8)), HasSubstr("dtype"));
  EXPECT_THAT(refusal(file_with(tensor("F32", "[-2]", "[0,8]"), 8)), HasSubstr("shape"));
  EXPECT_THAT(refusal(file_with(tensor("F32", "[2.0]", "[0,8]"), 8)), HasSubstr("shape"));
  EXPECT_THAT(refusal(file_with(tensor("F32", "[3]", "[0,8]"), 8)), HasSubstr("do not fit"));
  EXPECT_THAT(refusal(file_with(tensor("F32", "[2]", "[0,8]"), 7)), HasSubstr("within the 7"));
  EXPECT_THAT(refusal(file_with(tensor("F32", "[2]", "[0,8]"), 9)), HasSubstr("no tensor"));
  EXPECT_THAT(refusal(file_with(tensor("F32", "[2]", "[1,9]"), 9)), HasSubstr("0 was due"));
  EXPECT_THAT(refusal(file_with(tensor("F32", "[2]", "[8,0]"), 8)), HasSubstr("data_offsets"));
  EXPECT_THAT(refusal(file_with(tensor("F32", "[2]", "[0]"), 8)), HasSubstr("data_offsets"));
}

TEST(HostileSafetensors, AProductBeyond64BitsIsNoSmallTensor) {
  // 2^32 x 2^32 x 4 bytes is 0 modulo 2^64.
  const std::string header =
      R"({"t":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})";
  EXPECT_THAT(refusal(file_with(header, 0)), HasSubstr("do not fit"));
}

TEST(HostileSafetensors, TensorsMayNotOverlap) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                             R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})";
  EXPECT_THAT(refusal(file_with(header, 6)), HasSubstr("\"b\" begins at byte 2 where 4 was due"));
}

}  // namespace
}  // namespace tombolo::state
