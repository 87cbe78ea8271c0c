// Files that must be refused, each with its own sentence.
#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <string>

#include "tests/gguf/exact.h"
#include "tests/support/toy_model.h"

namespace {

using namespace mote;
using namespace mote::gguf;
using namespace mote::test;

std::string refusal(const Bytes& bytes) {
  const Exact exact(bytes);
  const Status status = File::open(exact.span()).status();
  if (status.ok()) return "(it opened)";
  if (status.code() != Code::bad_model && status.code() != Code::unsupported) return "(wrong code)";
  return std::string(status.message());
}

Bytes text_bytes(std::string_view text) { return {text.begin(), text.end()}; }

TEST_CASE("files that are something else are called by their name", "[gguf][error]") {
  using namespace std::string_view_literals;
  const std::pair<std::string_view, std::string_view> cases[] = {
      {""sv, "the file is empty (0 bytes)"},
      {"GG"sv, "the file has 2 bytes, too few for GGUF"},
      {"<!DOCTYPE html><html>"sv,
       "the file is a web page (it starts with <!DOCTYPE), not a GGUF model; check the download"},
      {"\xef\xbb\xbf\r\n  <HTML lang=en>"sv,
       "the file is a web page (it starts with <HTML), not a GGUF model; check the download"},
      {"<?xml version=\"1.0\"?><Error><Code>AccessDenied"sv,
       "the file is a web page (it starts with <?xml), not a GGUF model; check the download"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0"sv,
       "the file is a git-LFS pointer, not the model itself; fetch it with git lfs pull"},
      {"PK\x03\x04\x14\0\0\0"sv,
       "the file is a zip archive (a PyTorch checkpoint is one too), not GGUF; unpack or convert it"},
      {"\x1f\x8b\x08\0"sv, "the file is compressed with gzip, not GGUF; unpack it first"},
      {"\x28\xb5\x2f\xfd\x04"sv, "the file is compressed with zstd, not GGUF; unpack it first"},
      {"\xfd\x37zXZ\0"sv, "the file is compressed with xz, not GGUF; unpack it first"},
      {"BZh91AY"sv, "the file is compressed with bzip2, not GGUF; unpack it first"},
      {"\x89HDF\r\n\x1a\n"sv, "the file is HDF5, not GGUF; convert it first"},
      {"\177ELF\2\1\1"sv, "the file is a program or library (ELF), not a GGUF model"},
      {"\x80\x02}q"sv, "the file is a Python pickle (an old PyTorch checkpoint), not GGUF; convert it first"},
      {"<head><title>404"sv, "the file is a web page (it starts with <head), not a GGUF model; check the download"},
      {"<!-- moved -->"sv, "the file is a web page (it starts with <!--), not a GGUF model; check the download"},
      {"\x40\0\0\0\0\0\0\0{\"__metadata__\":{}}"sv, "the file is safetensors, not GGUF; convert it first"},
      {"\xff\xff\xff\xff\0\0\0\0{\"a\":1}"sv,   // a header of 4 GiB is no safetensors
       "the file is no GGUF model: it starts with the bytes ff ff ff ff, not 47 47 55 46 (GGUF)"},
      {"{\"error\": \"not found\"}"sv, "the file is JSON text, not a GGUF model"},
      {"FUGG\0\0\0\3"sv, "the file is big-endian GGUF (it starts with FUGG); mote reads little-endian files"},
      {"tjgg\3\0\0\0"sv,
       "the file is in the GGML format of before GGUF (magic ggjt), which mote does not read; convert it"},
      {"lmgg\1\0\0\0"sv,
       "the file is in the GGML format of before GGUF (magic ggml), which mote does not read; convert it"},
      {"fmgg\1\0\0\0"sv,
       "the file is in the GGML format of before GGUF (magic ggmf), which mote does not read; convert it"},
      {"algg\1\0\0\0"sv, "the file is a GGML adapter of before GGUF (magic ggla), which mote does not read"},
      {"\0\0\0\0\0\0\0\0"sv, "the file is no GGUF model: it starts with the bytes 00 00 00 00, not 47 47 55 46 (GGUF)"},
      {"GGUE\3\0\0\0"sv, "the file is no GGUF model: it starts with the bytes 47 47 55 45, not 47 47 55 46 (GGUF)"},
      {"GGUF"sv, "the file is cut short: its bytes end at 4, inside the version"},
      {"GGUF\3\0\0\0\1\0"sv,
       "the file is cut short: its bytes end at 10, inside the fixed part of the header, which has 24 bytes"},
      {"GGUF\0\0\0\3\0\0\0\0\0\0\0\0"sv,
       "the file is big-endian GGUF (version bytes 00 00 00 03); mote reads little-endian files"},
      {"GGUF\1\0\0\0\1\0\0\0\1\0\0\0"sv, "the file is GGUF version 1; mote reads versions 2 and 3"},
      {"GGUF\0\0\0\0"sv, "the file is GGUF version 0; mote reads versions 2 and 3"},
      {"GGUF\0\0\0\x0a"sv, "the file is GGUF version 167772160; mote reads versions 2 and 3"},
      {"GGUF\4\0\0\0"sv, "the file is GGUF version 4; mote reads versions 2 and 3"},
      {"GGUF\xff\xff\xff\xff"sv, "the file is GGUF version 4294967295; mote reads versions 2 and 3"},
  };
  for (const auto& [start, sentence] : cases) CHECK(refusal(text_bytes(start)) == sentence);
}

// One change to a small good file, and the sentence it gets.
struct Case {
  std::function<void(GgufBuilder&)> change;
  std::string sentence;
};

GgufBuilder small_model() {
  GgufBuilder model;
  model.set_string("general.architecture", "llama");
  model.set_u32("llama.block_count", 1);
  model.set_array("list", Type::uint16, std::vector<uint16_t>{1, 2});
  model.set_strings("tokens", {"a", "bc"});
  model.add_tensor("first", Format::q8_0, {64, 2}, Bytes(2 * 68, 1));
  model.add_tensor("second", Format::f32, {3}, Bytes(12, 2));
  return model;
}

void check_all(const std::vector<Case>& cases) {
  REQUIRE(refusal(small_model().bytes()) == "(it opened)");
  for (const Case& one : cases) {
    GgufBuilder model = small_model();
    one.change(model);
    CHECK(refusal(model.bytes()) == one.sentence);
  }
}

TEST_CASE("absurd counts are refused before anything is walked", "[gguf][error]") {
  const std::string bytes = std::to_string(small_model().bytes().size() - 24);
  check_all({
      {[](GgufBuilder& m) { m.n_entries = 0; }, "the file has no metadata, so nothing says what model it is"},
      {[](GgufBuilder& m) { m.n_entries = UINT64_MAX; },
       "the file claims 18446744073709551615 metadata entries in " + bytes + " bytes; at most 1024 are read"},
      {[](GgufBuilder& m) { m.n_entries = 300; },
       "the file claims 300 metadata entries in " + bytes + " bytes; at most 1024 are read"},
      {[](GgufBuilder& m) { m.n_tensors = uint64_t{1} << 63; },
       "the file claims 9223372036854775808 tensors in " + bytes + " bytes; at most 16384 are read"},
      {[](GgufBuilder& m) { m.n_tensors = 300; },
       "the file claims 300 tensors in " + bytes + " bytes; at most 16384 are read"},
  });
}

TEST_CASE("files of exactly the most entries, tensors and nested arrays open, and one more does not", "[gguf][error]") {
  GgufBuilder model;
  while (model.entries.size() < File::kMaxEntries)
    model.set("k" + std::to_string(model.entries.size()), Type::uint8, uint8_t{1});
  CHECK(refusal(model.bytes()) == "(it opened)");
  model.set("more", Type::uint8, uint8_t{1});
  CHECK(refusal(model.bytes()).starts_with("the file claims 1025 metadata entries in "));

  GgufBuilder tensors = small_model();
  tensors.parts.clear();
  for (uint64_t i = 0; i < File::kMaxTensors; ++i)
    tensors.add_tensor("t" + std::to_string(i), Format::f32, {1}, Bytes(4, 1));
  CHECK(refusal(tensors.bytes()) == "(it opened)");
  tensors.add_tensor("more", Format::f32, {1}, Bytes(4, 1));
  CHECK(refusal(tensors.bytes()).starts_with("the file claims 16385 tensors in "));

  for (const uint32_t depth : {8u, 9u}) {
    Bytes nested;
    for (uint32_t i = 1; i < depth; ++i) {
      const Bytes head = GgufBuilder::array_head(9, 1);
      nested.insert(nested.end(), head.begin(), head.end());
    }
    const Bytes innermost = GgufBuilder::array_head(0, 0);
    nested.insert(nested.end(), innermost.begin(), innermost.end());
    GgufBuilder deep = small_model();
    deep.set_raw("deep", 9, nested);
    CHECK(refusal(deep.bytes()) == (depth == 8 ? "(it opened)" : "deep nests more than 8 arrays"));
  }
}

TEST_CASE("metadata that contradicts itself is refused with its key", "[gguf][error]") {
  Bytes deep;
  for (int i = 0; i < 100000; ++i) {
    const Bytes head = GgufBuilder::array_head(9, 1);
    deep.insert(deep.end(), head.begin(), head.end());
  }
  check_all({
      {[](GgufBuilder& m) { m.entries[1].key = ""; }, "metadata entry 1 of 4 has an empty key"},
      {[](GgufBuilder& m) { m.entries[1].key = "tokens"; }, "tokens is there twice, as metadata entries 1 and 3"},
      {[](GgufBuilder& m) { m.entries[1].type = 13; },
       "llama.block_count is of the unknown type 13, GGUF has types 0 to 12"},
      {[](GgufBuilder& m) { m.entries[2].value[0] = 14; },
       "list is an array of the unknown type 14, GGUF has types 0 to 12"},
      {[](GgufBuilder& m) { m.set("b", Type::boolean, uint8_t{2}); },
       "b has a bool of value 2 at byte 196, only 0 and 1 are allowed"},
      {[](GgufBuilder& m) { m.set_array("b", Type::boolean, std::vector<uint8_t>{0, 1, 255}); },
       "b has a bool of value 255 at byte 210, only 0 and 1 are allowed"},
      {[&](GgufBuilder& m) { m.set_raw("deep", 9, deep); }, "deep nests more than 8 arrays"},
      {[](GgufBuilder& m) { m.set_u32("general.alignment", 0); }, "general.alignment is 0, 8 to 1048576 is allowed"},
      {[](GgufBuilder& m) { m.set_u32("general.alignment", 24); },
       "general.alignment is 24, a power of two from 8 to 1048576 is allowed"},
      {[](GgufBuilder& m) { m.set_u32("general.alignment", 3); }, "general.alignment is 3, 8 to 1048576 is allowed"},
      {[](GgufBuilder& m) { m.set_u32("general.alignment", 1u << 31); },
       "general.alignment is 2147483648, 8 to 1048576 is allowed"},
      {[](GgufBuilder& m) { m.set("general.alignment", Type::int32, int32_t{-32}); },
       "general.alignment is -32, 8 to 1048576 is allowed"},
      {[](GgufBuilder& m) { m.set_string("general.alignment", "32"); },
       "general.alignment is of type string, an integer is expected"},
      {[](GgufBuilder& m) { m.set_f32("general.alignment", 32); },
       "general.alignment is of type float32, an integer is expected"},
      {[](GgufBuilder& m) {
         m.set("split.no", Type::uint16, uint16_t{1});
         m.set("split.count", Type::uint16, uint16_t{5});
       },
       "the file is part 2 of 5 of a split model (split.no, split.count), and none but this one was given"},
  });
}

TEST_CASE("lengths beyond the end are refused with what was claimed and what is there", "[gguf][error]") {
  const auto claims = [](uint64_t count, uint32_t type) {
    return [=](GgufBuilder& m) {
      m.parts.clear();
      m.set_raw("x", 9, GgufBuilder::array_head(type, count));
    };
  };
  check_all({
      {claims(uint64_t{1} << 61, 4),
       "x claims 2305843009213693952 elements of uint32 at byte 208, the file has only 0 bytes more"},
      {claims(UINT64_MAX, 8),
       "x claims 18446744073709551615 elements of string at byte 208, the file has only 0 bytes more"},
      {claims(UINT64_MAX, 9), "x claims 18446744073709551615 arrays at byte 208, the file has only 0 bytes more"},
      {claims(2, 0), "x claims 2 elements of uint8 at byte 208, the file has only 0 bytes more"},
      {[](GgufBuilder& m) {
         m.parts.clear();
         Bytes text;
         append(text, UINT64_MAX);
         m.set_raw("x", 8, text);
       },
       "string 0 of x claims 18446744073709551615 bytes at byte 204, the file has 0 more"},
      {[](GgufBuilder& m) { m.entries[3].value[12] = 200; },   // swallows the tensor table; its data is a length then
       "string 1 of tokens claims 72340172838076673 bytes at byte 380, the file has 80 more"},
  });
}

TEST_CASE("tensors that contradict themselves or the file are refused with their name", "[gguf][error]") {
  const uint64_t size = small_model().bytes().size(), data = size - 172;
  check_all({
      {[](GgufBuilder& m) { m.parts[1].name = ""; }, "tensor 1 of 2 has an empty name"},
      {[](GgufBuilder& m) { m.parts[1].dimensions = {}; }, "tensor second has 0 dimensions, 1 to 4 are allowed"},
      {[](GgufBuilder& m) { m.parts[1].dimensions = {1, 1, 1, 1, 3}; },
       "tensor second has 5 dimensions, 1 to 4 are allowed"},
      {[](GgufBuilder& m) { m.parts[1].n_dimensions = 0xffffffff; },
       "tensor second has 4294967295 dimensions, 1 to 4 are allowed"},
      {[](GgufBuilder& m) { m.parts[1].dimensions = {3, 0}; }, "dimension 1 of tensor second is 0"},
      {[](GgufBuilder& m) { m.parts[1].dimensions = {uint64_t{1} << 32, uint64_t{1} << 32}; },
       "tensor second has more than 2^64 values"},
      {[](GgufBuilder& m) { m.parts[1].dimensions = {uint64_t{1} << 62}; },
       "tensor second ends beyond byte 2^64 (offset 160)"},
      {[](GgufBuilder& m) { m.parts[0].dimensions = {2, 64}; },
       "tensor first has 2 columns, not a multiple of the 32 values in a block of q8_0"},
      {[](GgufBuilder& m) { m.parts[1].offset = 161; },
       "tensor second is at offset 161, not a multiple of the alignment 32"},
      {[](GgufBuilder& m) { m.parts[1].offset = UINT64_MAX - 31; }, "tensor second ends beyond byte 2^64"},
      {[](GgufBuilder& m) { m.parts[1].offset = UINT64_MAX - 7; },
       "tensor second ends beyond byte 2^64 (offset 18446744073709551608)"},
      {[](GgufBuilder& m) { m.parts[1].offset = 192; },
       "tensor second ends at byte " + std::to_string(data + 204) + ", file has " + std::to_string(size)},
      {[](GgufBuilder& m) { m.parts[1].dimensions = {4}; },
       "tensor second ends at byte " + std::to_string(size + 4) + ", file has " + std::to_string(size)},
  });
  GgufBuilder model = small_model();
  model.parts[1].type = 16;
  CHECK(refusal(model.bytes())
            .starts_with("tensor second is of type 16 (iq2_xxs), which mote does not read; it reads f32"));
}

TEST_CASE("hostile names are shown escaped and cut", "[gguf][error]") {
  GgufBuilder model = small_model();
  model.parts[1].name = std::string(5000, '\x1b');
  model.parts[1].dimensions = {};
  const std::string sentence = refusal(model.bytes());
  CHECK(sentence.size() < Status::kCapacity);
  CHECK(sentence.find('\x1b') == std::string::npos);
  CHECK(sentence.ends_with("has 0 dimensions, 1 to 4 are allowed"));
}

}   // namespace
