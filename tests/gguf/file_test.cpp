// Files that must open, and what they yield.
#include "core/gguf/file.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <string>

#include "tests/gguf/exact.h"
#include "tests/support/goldens.h"
#include "tests/support/toy_model.h"
#include "tests/support/zero_pages.h"

namespace {

using namespace mote;
using namespace mote::gguf;
using namespace mote::test;

// The number of tensors that are not where the builder put them or hold other bytes.
int wrong_tensors(const File& file, const GgufBuilder& model) {
  int wrong = 0;
  size_t i = 0;
  Tensor tensor;
  for (File::TensorCursor cursor = file.tensors(); cursor.next(&tensor); ++i) {
    if (i >= model.parts.size()) return -1;
    const GgufBuilder::TensorPart& part = model.parts[i];
    bool same = tensor.name == part.name && tensor.n_dimensions == part.dimensions.size() &&
                tensor.bytes == part.data.size() && format_info(tensor.format).number == part.type;
    for (size_t d = 0; same && d < Tensor::kMaxDimensions; ++d) {
      same = tensor.dimensions[d] == (d < part.dimensions.size() ? part.dimensions[d] : 1);
    }
    wrong += !same || tensor.data == nullptr || std::memcmp(tensor.data, part.data.data(), part.data.size()) != 0;
  }
  return i == model.parts.size() ? wrong : -1;
}

GgufBuilder mixed_model() {
  return toy_llama({.d_model = 256,
                    .n_heads = 8,
                    .d_ff = 256,
                    .matrices = Format::q4_k,
                    .embedding = Format::q8_0,
                    .output = Format::f16});
}

TEST_CASE("a file opens with both versions, any alignment and any address", "[gguf]") {
  const uint32_t version = GENERATE(2u, 3u);
  const uint64_t alignment = GENERATE(uint64_t{8}, uint64_t{32}, uint64_t{64}, uint64_t{4096}, uint64_t{1} << 20);
  const size_t shift = GENERATE(size_t{0}, size_t{1}, size_t{3});
  GgufBuilder model = toy_llama({.n_layers = 1, .d_model = 32, .d_ff = 32});
  model.version = version;
  model.set_alignment(alignment);
  model.gap = 0xAA;
  const Exact bytes(model.bytes(), shift);
  INFO("version " << version << ", alignment " << alignment << ", address + " << shift);
  const Result<File> file = File::open(bytes.span());
  REQUIRE(file.status().message() == "");
  CHECK(file.value().version() == version);
  CHECK(file.value().alignment() == alignment);
  CHECK(file.value().header_bytes() % alignment == 0);
  CHECK(file.value().file_bytes() == bytes.span().size());
  CHECK(wrong_tensors(file.value(), model) == 0);
}

TEST_CASE("tensors of every format and of one to four dimensions come out as they went in", "[gguf]") {
  GgufBuilder model = mixed_model();
  model.add_tensor("three", Format::f32, {4, 3, 2}, Bytes(4 * 3 * 2 * 4, 3));
  model.add_tensor("four", Format::bf16, {5, 1, 2, 3}, Bytes(5 * 2 * 3 * 2, 4));
  const Exact bytes(model.bytes());
  const Result<File> file = File::open(bytes.span());
  REQUIRE(file.status().message() == "");
  CHECK(wrong_tensors(file.value(), model) == 0);
  Tensor tensor;
  REQUIRE(find_tensor(file.value(), "four", &tensor));
  CHECK(tensor.dimensions[3] == 3);
  CHECK_FALSE(find_tensor(file.value(), "five", &tensor));
}

TEST_CASE("bytes behind the last tensor are nobody's business", "[gguf]") {
  const GgufBuilder model = mixed_model();
  Bytes bytes = model.bytes();
  bytes.resize(bytes.size() + 77, 0xAA);
  const Exact exact(bytes);
  const Result<File> file = File::open(exact.span());
  REQUIRE(file.ok());
  CHECK(wrong_tensors(file.value(), model) == 0);
}

TEST_CASE("a vocabulary-only file without tensors opens", "[gguf]") {
  GgufBuilder model;
  model.set_string("general.architecture", "llama");
  add_toy_tokenizer(model, {});
  const Exact bytes(model.bytes());
  const Result<File> file = File::open(bytes.span());
  REQUIRE(file.status().message() == "");
  CHECK(file.value().n_tensors() == 0);
  CHECK(file.value().header_bytes() == bytes.span().size());
  Tensor tensor;
  CHECK_FALSE(file.value().tensors().next(&tensor));
  CHECK(file.value().get_array("tokenizer.ggml.tokens", Type::string).value().count == 320);
}

TEST_CASE("the head of a file is enough when the whole size is told", "[gguf]") {
  const GgufBuilder model = mixed_model();
  const uint64_t whole = model.bytes().size();
  const Exact head(model.header());
  const Result<File> file = File::open(head.span(), whole);
  REQUIRE(file.status().message() == "");
  Tensor tensor;
  REQUIRE(find_tensor(file.value(), "output_norm.weight", &tensor));
  CHECK(tensor.data == nullptr);
  CHECK(tensor.bytes == 1024);
  const Status status = File::open(head.span(), whole - 1).status();
  CHECK(std::string(status.message()) ==
        "tensor output.weight ends at byte " + std::to_string(whole) + ", file has " + std::to_string(whole - 1));
}

TEST_CASE("parts of more bytes than can be counted are no model", "[gguf][error]") {
  const std::vector<GgufBuilder> parts = mixed_model().split(2);
  const Exact first(parts[0].bytes()), second(parts[1].bytes());
  const Result<Part> other = File::read_part(second.span(), second.span().size(), Formats::built_in, {1, 2});
  REQUIRE(other.status().message() == "");
  for (const uint64_t over : {0u, 1u}) {
    Result<File> file = File::open(first.span(), UINT64_MAX - second.span().size() + over, Formats::built_in, {0, 2});
    REQUIRE(file.status().message() == "");
    const Status joined = file.value().join({&other.value(), 1});
    CHECK(joined.ok() == (over == 0));
    CHECK((over == 0 || joined.message() == "the 2 parts have more than 2^64 bytes"));
  }
}

TEST_CASE("every metadata type is found with its value where it lies", "[gguf]") {
  GgufBuilder model;
  model.set("a.u8", Type::uint8, uint8_t{200});
  model.set("a.i8", Type::int8, int8_t{-3});
  model.set("a.u16", Type::uint16, uint16_t{60000});
  model.set("a.i16", Type::int16, int16_t{-300});
  model.set("a.u32", Type::uint32, uint32_t{4000000000});
  model.set("a.i32", Type::int32, int32_t{-70000});
  model.set("a.u64", Type::uint64, uint64_t{1} << 63);
  model.set("a.i64", Type::int64, INT64_MIN);
  model.set("a.f32", Type::float32, 0.5f);
  model.set("a.f64", Type::float64, 0.1);
  model.set_bool("a.bool", true);
  model.set_string("a.string", "text");
  model.set_strings("a.strings", {"", "x", "yz"});
  model.set_array("a.f32s", Type::float32, std::vector<float>{1, 2});
  Bytes nested = GgufBuilder::array_head(9, 2);   // [[1, 2], []]
  for (const Bytes& part : {GgufBuilder::array_head(0, 2), Bytes{1, 2}, GgufBuilder::array_head(8, 0)}) {
    nested.insert(nested.end(), part.begin(), part.end());
  }
  model.set_raw("a.nested", 9, nested);
  model.set_u32("z.last", 7);
  const Exact bytes(model.bytes(), 1);
  const Result<File> opened = File::open(bytes.span());
  REQUIRE(opened.status().message() == "");
  const File& file = opened.value();
  int wrong = 0;
  for (uint64_t i = 0; i < file.n_entries(); ++i) {
    const Entry entry = file.entry(i);
    const GgufBuilder::Metadata& expected = model.entries[i];
    const bool array = entry.type == Type::array;
    Entry found;
    wrong += entry.key != expected.key || static_cast<uint32_t>(entry.type) != expected.type ||
             entry.value_bytes + (array ? 12 : 0) != expected.value.size() ||
             std::memcmp(entry.value, expected.value.data() + (array ? 12 : 0), entry.value_bytes) != 0 ||
             !file.find(expected.key, &found) || found.value != entry.value;
  }
  CHECK(wrong == 0);
  CHECK(file.n_entries() == model.entries.size());
  const Entry nested_entry = file.get_array("a.nested", Type::array).value();
  CHECK(nested_entry.count == 2);
  Entry none;
  CHECK_FALSE(file.find("a.string2", &none));
  CHECK_FALSE(file.find("", &none));

  StringCursor cursor(file.get_array("a.strings", Type::string).value());
  std::string joined;
  for (std::string_view text; cursor.next(&text);) joined += std::string(text) + "|";
  CHECK(joined == "|x|yz|");
}

TEST_CASE("only the whole file opens: cut at every header byte and every 512 bytes after it", "[gguf][error]") {
  const GgufBuilder model = toy_llama({.n_layers = 2, .d_model = 32, .d_ff = 64, .matrices = Format::q8_0});
  const Bytes whole = model.bytes();
  const size_t header = model.header().size();
  int opened = 0, silent = 0;
  std::string odd;
  for (size_t size = 0; size < whole.size(); size += size < header ? 1 : 512) {
    const Exact cut(std::span<const uint8_t>(whole).first(size));
    const Status status = File::open(cut.span()).status();
    opened += status.ok();
    if (status.message().size() < 20) ++silent, odd = std::to_string(size) + " bytes: " + std::string(status.message());
  }
  const Exact last(std::span<const uint8_t>(whole).first(whole.size() - 1));
  CHECK_FALSE(File::open(last.span()).ok());
  CHECK(opened == 0);
  INFO(odd);
  CHECK(silent == 0);
  CHECK(File::open(whole).ok());
}

TEST_CASE("damaged headers never make the reader look beyond the bytes", "[gguf][error]") {
  const GgufBuilder model = toy_llama({.n_layers = 1, .d_model = 32, .d_ff = 32, .rope_scaling = "linear"});
  const Bytes whole = model.bytes();
  const uint32_t header = static_cast<uint32_t>(model.header().size());
  uint64_t state = 1;
  const auto next = [&state](uint32_t end) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>((state >> 33) % end);
  };
  int opened = 0, refused = 0;
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes = whole;
    for (uint32_t n = 1 + next(4); n > 0; --n)
      bytes[next(header)] = static_cast<uint8_t>(next(3) == 0 ? 0xff : next(256));
    const Exact exact(bytes);
    const Result<File> file = File::open(exact.span());
    file.ok() ? ++opened : ++refused;
    if (!file.ok()) continue;
    Tensor tensor;
    uint64_t sum = 0;   // every byte that the file lays claim to is there
    for (File::TensorCursor cursor = file.value().tensors(); cursor.next(&tensor);) {
      sum += tensor.data[0] + uint64_t{tensor.data[tensor.bytes - 1]};
    }
    for (uint64_t i = 0; i < file.value().n_entries(); ++i) {
      const Entry entry = file.value().entry(i);
      for (uint64_t b = 0; b < entry.value_bytes; ++b) sum += entry.value[b];
      if (entry.element_type != Type::string) continue;
      StringCursor cursor(entry);
      for (std::string_view text; cursor.next(&text);) sum += text.size();
    }
    if (sum == 0) ++refused;   // never: keeps the reads
  }
  CHECK(opened > 0);
  CHECK(refused > 10000);
}

TEST_CASE("the golden models open", "[gguf][golden]") {
  const auto folder = goldens_dir() / "models";
  int models = 0;
  if (std::filesystem::is_directory(folder)) {
    for (const auto& item : std::filesystem::directory_iterator(folder)) {
      if (item.path().extension() != ".gguf") continue;
      const Bytes bytes = read_bytes(item.path());
      INFO(item.path().string());
      CHECK(File::open(bytes).status().message() == "");
      ++models;
    }
  }
  CHECK((models > 0 || !goldens_are_full()));
}

TEST_CASE("metadata of over 1 GiB is refused, and no byte of the values is read for it", "[gguf][error]") {
  for (const uint64_t count : {File::kMaxMetadataBytes - 100, File::kMaxMetadataBytes}) {
    GgufBuilder model;
    model.set_raw("big", 9, GgufBuilder::array_head(0, count));
    const Bytes head = model.bytes();
    const ZeroPages file(head, head.size() + count);
    if (file.span().empty()) SKIP("no address space for 1 GiB");
    const Status status = File::open(file.span()).status();
    CHECK(status.message() == (count < File::kMaxMetadataBytes
                                   ? std::string()
                                   : "the metadata goes on beyond byte 1073741824 (big ends at " +
                                         std::to_string(head.size() + count) + ")"));
  }
}

TEST_CASE("a vocabulary of 262,144 pieces is walked in time that grows with its bytes", "[gguf]") {
  GgufBuilder model;
  std::vector<std::string> tokens, merges;
  for (int i = 0; i < 262144; ++i)
    tokens.push_back("piece" + std::to_string(i)), merges.push_back("pie " + std::to_string(i));
  model.set_string("general.architecture", "llama");
  model.set_strings("tokenizer.ggml.tokens", tokens);
  model.set_strings("tokenizer.ggml.merges", merges);
  const Bytes bytes = model.bytes();
  const auto begin = std::chrono::steady_clock::now();
  const Result<File> file = File::open(bytes);
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - begin;
  INFO(spent.count() << " ms");
  REQUIRE(file.ok());
  CHECK(file.value().get_array("tokenizer.ggml.merges", Type::string).value().count == 262144);
  CHECK(spent.count() < 500);   // a few ms in a release build; wide for sanitizers on a busy machine
}

}   // namespace
