// Token files of both formats: written, read, and refused where they cannot be what they claim.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "perform/data/token_file.h"
#include "perform/data/token_index.h"
#include "perform/data/token_writer.h"
#include "support/folder_test.h"

namespace tombolo::data {
namespace {

using plan::TokenFormat;
using plan::TokenType;
using testing::ElementsAre;
using testing::HasSubstr;

class TokenFiles : public FolderTest {
 protected:
  // Three documents of 3, 0 and 2 ids.
  void write(const std::string& name, TokenFormat format, TokenType type) const {
    auto writer = TokenWriter::create(at(name), format, type);
    ASSERT_TRUE(writer) << writer.error().text();
    ASSERT_TRUE(writer->add(std::vector<int64_t>{1, 2, 3}));
    ASSERT_TRUE(writer->add({}));
    ASSERT_TRUE(writer->add(std::vector<int64_t>{100, 7}));
    ASSERT_TRUE(writer->finish());
    EXPECT_EQ(writer->tokens(), 5);
    EXPECT_EQ(writer->documents(), 2);
  }

  std::string refused(const std::string& name, std::optional<TokenFormat> format = {},
                      std::optional<TokenType> type = {}) const {
    const auto file = TokenFile::open(at(name), format, type);
    EXPECT_FALSE(file);
    if (file) return "";
    EXPECT_EQ(file.error().code, ErrorCode::kUnusable);
    EXPECT_FALSE(file.error().hint.empty()) << file.error().text();
    return file.error().text();
  }
};

std::vector<int64_t> ids(const TokenFile& file, int64_t first, size_t count) {
  std::vector<int64_t> out(count);
  const Status read = file.read(first, out, 1000);
  EXPECT_TRUE(read) << (read ? "" : read.error().text());
  return out;
}

// All of a short file; of a long one pieces of 64 KiB, the first and the last among them.
TEST_F(TokenFiles, CopiesAreToldApart) {
  constexpr int64_t kPiece = 65536, kSize = 10 * kPiece;
  const std::string path = at("copy.bin");
  const auto content = [&](int64_t changed, int64_t bytes_max, const char* ids = "uint8") {
    std::string bytes(kSize, 'a');
    if (changed >= 0) bytes[static_cast<size_t>(changed)] = 'b';
    EXPECT_TRUE(write_file(path, bytes));
    const auto file = TokenFile::open(path, TokenFormat::kNanogpt, from_name<TokenType>(ids));
    EXPECT_TRUE(file);
    const auto content = file->content(bytes_max);
    EXPECT_TRUE(content);
    EXPECT_EQ(content->bytes, kSize);
    return content->digest;
  };
  for (const int64_t byte : {int64_t{0}, kSize / 2, kSize - 1})
    EXPECT_NE(content(-1, kSize), content(byte, kSize)) << byte;
  EXPECT_EQ(content(-1, kSize), content(-1, 10 * kSize));
  EXPECT_NE(content(-1, kSize), content(-1, kSize, "uint16"));
  // Four pieces: they begin at 0, 3, 6 and 9 times 64 KiB.
  for (const int64_t byte : {int64_t{0}, 3 * kPiece, 7 * kPiece - 1, kSize - 1})
    EXPECT_NE(content(-1, 4 * kPiece), content(byte, 4 * kPiece)) << byte;
  EXPECT_EQ(content(-1, 4 * kPiece), content(2 * kPiece, 4 * kPiece));
}

TEST_F(TokenFiles, AreReadAsTheyWereWrittenInEveryType) {
  using enum TokenType;
  for (const TokenType type : {kUint8, kInt16, kUint16, kInt32, kInt64}) {
    write("megatron", TokenFormat::kMegatron, type);
    const auto file = TokenFile::open(at("megatron.bin"), {}, {});
    ASSERT_TRUE(file) << file.error().text();
    EXPECT_EQ(file->type(), type);
    EXPECT_EQ(file->tokens(), 5);
    EXPECT_THAT(ids(*file, 0, 5), ElementsAre(1, 2, 3, 100, 7));
    EXPECT_THAT(ids(*file, 2, 2), ElementsAre(3, 100));
  }
  for (const TokenType type : {kUint16, kUint32}) {
    write("bare", TokenFormat::kNanogpt, type);
    const auto file = TokenFile::open(at("bare.bin"), {}, type);
    ASSERT_TRUE(file) << file.error().text();
    EXPECT_THAT(ids(*file, 0, 5), ElementsAre(1, 2, 3, 100, 7));
  }
  EXPECT_TRUE(TokenFile::open(at("bare.bin"), {}, {}));  // uint16, if nothing is said
}

// nanoGPT's files say nothing of their ids: what a vocabulary needs is known.
TEST_F(TokenFiles, IdsOfALargeVocabularyAreNeverReadInHalves) {
  auto writer = TokenWriter::create(at("qwen"), TokenFormat::kNanogpt, TokenType::kUint32);
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->add(std::vector<int64_t>{51, 2855, 10'011, 151'668}));
  ASSERT_TRUE(writer->finish());
  const auto type_at = [&](int64_t vocabulary, std::optional<TokenType> said = {}) {
    return TokenFile::open(at("qwen.bin"), {}, said, vocabulary)->type();
  };
  EXPECT_EQ(type_at(65'537), TokenType::kUint32);
  EXPECT_EQ(type_at(151'669), TokenType::kUint32);
  EXPECT_EQ(type_at(65'536), TokenType::kUint16);
  EXPECT_EQ(type_at(151'669, TokenType::kUint16), TokenType::kUint16);  // said
  const auto file = TokenFile::open(at("qwen.bin"), {}, {}, 151'669);
  std::vector<int64_t> out(4);
  ASSERT_TRUE(file->read(0, out, 151'669));
  EXPECT_THAT(out, ElementsAre(51, 2855, 10'011, 151'668));
}

// Ids of four bytes below 65,536 have a zero in each second pair of bytes.
TEST_F(TokenFiles, WiderIdsThanTheVocabularyNeedsAreSaid) {
  const auto write_ids = [&](const std::vector<int64_t>& ids) {
    auto writer = TokenWriter::create(at("wide"), TokenFormat::kNanogpt, TokenType::kUint32);
    ASSERT_TRUE(writer->add(ids));
    ASSERT_TRUE(writer->finish());
  };
  std::vector<int64_t> ids(200);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(1 + i);
  write_ids(ids);
  EXPECT_THAT(refused("wide.bin"), HasSubstr("every second id at its beginning is 0"));
  EXPECT_TRUE(TokenFile::open(at("wide.bin"), {}, TokenType::kUint32));
  EXPECT_TRUE(TokenFile::open(at("wide.bin"), {}, TokenType::kUint16));  // said
  write_ids(std::vector<int64_t>(200, 0));                               // nothing tells these
  EXPECT_TRUE(TokenFile::open(at("wide.bin"), {}, {}));
}

// llm.c's 256 numbers in front: magic, version, how many ids.
TEST_F(TokenFiles, HeadersOfLlmcAreRead) {
  const auto bytes_of = [](const std::vector<int32_t>& header, const auto& ids) {
    std::vector<int32_t> words = header;
    words.resize(256);
    return std::string(reinterpret_cast<const char*>(words.data()), 1024) +
           std::string(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof ids[0]);
  };
  const std::vector<uint16_t> gpt2 = {50'256, 464, 7, 1};
  ASSERT_TRUE(write_file(at("gpt2.bin"), bytes_of({20240520, 1, 4}, gpt2)));
  const auto file = TokenFile::open(at("gpt2.bin"), {}, {}, 50'257);
  ASSERT_TRUE(file) << file.error().text();
  EXPECT_EQ(file->tokens(), 4);
  std::vector<int64_t> out(3);
  ASSERT_TRUE(file->read(0, out, 50'257));
  EXPECT_THAT(out, ElementsAre(50'256, 464, 7));
  EXPECT_THAT(file->read(1, out, 100).error().text(), HasSubstr("token 1 (byte 1026) is 464"));
  EXPECT_THAT(refused("gpt2.bin", {}, TokenType::kUint32),
              HasSubstr("by its header of llm.c its ids are uint16, data.dtype says uint32"));
  const std::vector<uint32_t> llama3 = {128'000, 9906};
  ASSERT_TRUE(write_file(at("llama3.bin"), bytes_of({20240801, 7, 2}, llama3)));
  const auto wide = TokenFile::open(at("llama3.bin"), {}, {}, 128'256);
  ASSERT_TRUE(wide) << wide.error().text();
  out.resize(2);
  ASSERT_TRUE(wide->read(0, out, 128'256));
  EXPECT_THAT(out, ElementsAre(128'000, 9906));
  ASSERT_TRUE(write_file(at("cut.bin"), bytes_of({20240520, 1, 5}, gpt2)));
  EXPECT_THAT(refused("cut.bin"), HasSubstr("says 5 ids of 2 bytes; 8 bytes follow it"));
  // Another version is none that is known: ids like others.
  ASSERT_TRUE(write_file(at("ids.bin"), bytes_of({20240520, 3, 4}, gpt2)));
  EXPECT_EQ(TokenFile::open(at("ids.bin"), {}, TokenType::kUint16)->tokens(), 512 + 4);
}

// Megatron-LM's own layout, byte by byte: struct.pack("<Q", 1), ("<B", 8), ("<Q", 2), ("<Q", 3),
// then numpy's int32 sizes, int64 pointers and int64 document indices.
TEST_F(TokenFiles, TheIndexHasTheBytesThatMegatronWrites) {
  write("m", TokenFormat::kMegatron, TokenType::kUint16);
  const auto u64 = [](char c) { return std::string{c, 0, 0, 0, 0, 0, 0, 0}; };
  const auto i32 = [](char c) { return std::string{c, 0, 0, 0}; };
  EXPECT_EQ(*read_file(at("m.idx")), std::string("MMIDIDX\0\0", 9) + u64(1) + '\x08' + u64(2) +
                                         u64(3) + i32(3) + i32(2) + u64(0) + u64(6) + u64(0) +
                                         u64(1) + u64(2));
  EXPECT_EQ(*read_file(at("m.bin")), std::string("\1\0\2\0\3\0\x64\0\7\0", 10));
  // Files of several modes have a byte more for each sequence.
  ASSERT_TRUE(write_file(at("m.idx"), *read_file(at("m.idx")) + std::string(2, '\0')));
  EXPECT_TRUE(TokenFile::open(at("m.bin"), {}, {}));
}

TEST_F(TokenFiles, AnIdBeyondTheVocabularyIsNamedByItsPlace) {
  write("m", TokenFormat::kMegatron, TokenType::kUint16);
  const auto file = TokenFile::open(at("m.bin"), {}, {});
  std::vector<int64_t> out(3);
  EXPECT_TRUE(file->read(0, out, 4));
  const Status read = file->read(2, out, 100);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message,
            at("m.bin") + ": token 3 (byte 6) is 100, model.vocabulary is 100");
  EXPECT_THAT(read.error().hint, HasSubstr("tokenizer"));

  ASSERT_TRUE(write_file(at("negative.bin"), std::string("\1\0\0\0\xff\xff\xff\xff", 8)));
  const auto negative = TokenFile::open(at("negative.bin"), {}, TokenType::kInt32);
  out.resize(2);
  EXPECT_THAT(negative->read(0, out, 100).error().text(), HasSubstr("token 1 (byte 4) is -1"));
}

TEST_F(TokenFiles, WhatDoesNotBelongTogetherIsRefused) {
  write("m", TokenFormat::kMegatron, TokenType::kUint16);
  EXPECT_THAT(refused("m.idx"), HasSubstr("the .bin next to it"));
  EXPECT_THAT(refused("none.bin"), HasSubstr("none.bin: cannot open it"));
  EXPECT_THAT(refused("m.bin", TokenFormat::kMegatron, TokenType::kInt32),
              HasSubstr("its ids are uint16, data.dtype says int32"));
  ASSERT_TRUE(write_file(at("m.bin"), "12345678"));
  EXPECT_THAT(refused("m.bin"), HasSubstr("m.bin: 8 bytes; "));
  ASSERT_TRUE(write_file(at("alone.bin"), "123"));
  EXPECT_THAT(refused("alone.bin"), HasSubstr("3 bytes are no whole number of uint16 ids"));
  EXPECT_THAT(refused("alone.bin", TokenFormat::kMegatron), HasSubstr("looking for the .idx"));
  std::filesystem::create_directory(at("folder.bin"));
  EXPECT_THAT(refused("folder.bin"), HasSubstr("no plain file"));
}

TEST_F(TokenFiles, AnIndexThatClaimsWhatItHasNotIsRefusedByItsByte) {
  write("m", TokenFormat::kMegatron, TokenType::kUint16);
  const std::string whole = *read_file(at("m.idx"));
  const auto changed = [&](size_t offset, const std::string& bytes) {
    std::string text = whole;
    text.replace(offset, bytes.size(), bytes);
    EXPECT_TRUE(write_file(at("m.idx"), text));
    return refused("m.bin");
  };
  EXPECT_THAT(changed(0, "X"), HasSubstr("m.idx: byte 0: it does not begin with MMIDIDX"));
  EXPECT_THAT(changed(9, "\2"), HasSubstr("byte 9: version 2, known is 1"));
  EXPECT_THAT(changed(17, "\7"), HasSubstr("byte 17: dtype code 7"));
  EXPECT_THAT(changed(18, std::string(8, '\xff')), HasSubstr("byte 18: 18446744073709551615 seq"));
  EXPECT_THAT(changed(26, std::string(8, '\x7f')), HasSubstr("byte 26: 2 sequences and"));
  EXPECT_THAT(changed(26, "\2"), HasSubstr("8 bytes follow"));
  EXPECT_THAT(changed(34, "\xff\xff\xff\xff"), HasSubstr("byte 34: sequence 0 has -1 tokens"));
  EXPECT_THAT(changed(50, "\4"), HasSubstr("byte 50: sequence 1 begins at byte 4 of the .bin"));
  EXPECT_THAT(changed(58, "\1"), HasSubstr("byte 58: entry 0 of 3 documents is sequence 1"));
  EXPECT_THAT(changed(74, "\1"), HasSubstr("byte 74: entry 2 of 3 documents"));
  ASSERT_TRUE(write_file(at("m.idx"), whole.substr(0, 20)));
  EXPECT_THAT(refused("m.bin"), HasSubstr("ends within the 34 bytes of its header"));
}

TEST_F(TokenFiles, AFileThatShrinksUnderARunIsAnErrorAndNoSignal) {
  write("m", TokenFormat::kMegatron, TokenType::kUint16);
  const auto file = TokenFile::open(at("m.bin"), {}, {});
  std::filesystem::resize_file(at("m.bin"), 0);
  std::vector<int64_t> out(2);
  const Status read = file->read(0, out, 1000);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().text(), HasSubstr("it has 0 bytes now, and had 10"));
}

TEST_F(TokenFiles, TheWriterRefusesWhatItsTypeCannotHold) {
  auto writer = TokenWriter::create(at("w"), TokenFormat::kMegatron, TokenType::kUint16);
  ASSERT_TRUE(writer);
  const Status added = writer->add(std::vector<int64_t>{5, 65'536});
  ASSERT_FALSE(added);
  EXPECT_THAT(added.error().text(), HasSubstr("token 1 of document 0 is 65536, which uint16"));
  EXPECT_FALSE(std::filesystem::exists(at("w.bin")));  // nothing before finish()
  EXPECT_FALSE(TokenWriter::create(at("w"), TokenFormat::kMegatron, TokenType::kUint32));
}

}  // namespace
}  // namespace tombolo::data
