#include "core/gguf/writer.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <string>

#include "tests/gguf/exact.h"
#include "tests/support/toy_model.h"

namespace {

using namespace mote;
using namespace mote::gguf;
using namespace mote::test;

bool append_to(void* user, const void* data, size_t bytes) {
  const auto* from = static_cast<const uint8_t*>(data);
  static_cast<Bytes*>(user)->insert(static_cast<Bytes*>(user)->end(), from, from + bytes);
  return true;
}

// Writes what `file` holds, data in pieces of `piece` bytes.
Status copy(const File& file, Sink sink, Writer::Options options, size_t piece, uint64_t* written) {
  options.n_entries = 0;
  for (uint64_t i = 0; i < file.n_entries(); ++i) options.n_entries += file.entry(i).key != "general.alignment";
  options.n_tensors = file.n_tensors();
  Writer writer(sink, options);
  for (uint64_t i = 0; i < file.n_entries(); ++i) {
    if (file.entry(i).key != "general.alignment") writer.add_entry(file.entry(i));
  }
  Tensor tensor;
  for (File::TensorCursor cursor = file.tensors(); cursor.next(&tensor);) {
    writer.add_tensor(tensor.name, tensor.format, {tensor.dimensions, tensor.n_dimensions});
  }
  for (File::TensorCursor cursor = file.tensors(); cursor.next(&tensor);) {
    std::span<const uint8_t> left(tensor.data, static_cast<size_t>(tensor.bytes));
    while (!left.empty()) {
      const size_t part = std::min(piece, left.size());
      writer.add_data(left.first(part));
      left = left.subspan(part);
    }
    writer.end_tensor();
  }
  *written = writer.written_bytes();
  return writer.finish();
}

TEST_CASE("what the writer copies is what the builder wrote, byte for byte", "[gguf][writer]") {
  const uint32_t version = GENERATE(2u, 3u);
  GgufBuilder model = toy_llama({.d_model = 256, .d_ff = 256, .matrices = Format::q6_k});
  model.version = version;
  Bytes expected = model.bytes();
  expected.resize((expected.size() + 31) / 32 * 32);   // the writer pads behind the last tensor too
  const Result<File> file = File::open(expected);
  REQUIRE(file.ok());
  Bytes copied;
  uint64_t written = 0, counted = 0;
  CHECK(copy(file.value(), {&copied, append_to}, {.version = version}, 100, &written).message() == "");
  CHECK(copied == expected);
  CHECK(written == expected.size());
  CHECK(copy(file.value(), {}, {.version = version}, SIZE_MAX, &counted).ok());   // only counts
  CHECK(counted == written);
}

TEST_CASE("a file written with another alignment says so and holds the same tensors", "[gguf][writer]") {
  const uint64_t alignment = GENERATE(uint64_t{8}, uint64_t{64}, uint64_t{4096});
  const Bytes bytes = toy_llama().bytes();
  const Result<File> file = File::open(bytes);
  REQUIRE(file.ok());
  Bytes copied;
  uint64_t written = 0;
  REQUIRE(copy(file.value(), {&copied, append_to}, {.alignment = alignment}, 1000, &written).message() == "");
  const Result<File> again = File::open(copied);
  REQUIRE(again.status().message() == "");
  CHECK(again.value().alignment() == alignment);
  File::TensorCursor a = file.value().tensors(), b = again.value().tensors();
  Tensor x, y;
  int wrong = 0;
  while (a.next(&x)) wrong += !b.next(&y) || x.name != y.name || std::memcmp(x.data, y.data, x.bytes) != 0;
  CHECK(wrong == 0);
}

TEST_CASE("every kind of entry that is written is read back", "[gguf][writer]") {
  Bytes bytes;
  Writer writer({&bytes, append_to}, {.n_entries = 12});
  writer.add_unsigned("u8", Type::uint8, 255);
  writer.add_unsigned("i16", Type::int16, 32767);
  writer.add_unsigned("u64", Type::uint64, UINT64_MAX);
  writer.add_signed("i8", Type::int8, -128);
  writer.add_signed("i64", Type::int64, INT64_MIN);
  writer.add_f32("f32", 1.5f);
  writer.add_f64("f64", 0.1);
  writer.add_bool("bool", true);
  writer.add_string("string", "text");
  const float list[] = {1, 2, 3};
  writer.add_array("list", Type::float32, list, 3);
  const std::string_view texts[] = {"", "two"};
  writer.add_strings("texts", texts);
  writer.begin_strings("none", 0);
  REQUIRE(writer.finish().message() == "");
  const Result<File> opened = File::open(bytes);
  REQUIRE(opened.status().message() == "");
  const File& file = opened.value();
  CHECK(file.get_unsigned("u8", 0, 255).value() == 255);
  CHECK(file.get_unsigned("i16", 0, 32767).value() == 32767);
  CHECK(file.get_unsigned("u64", 0, UINT64_MAX).value() == UINT64_MAX);
  CHECK(file.get_real("i8").value() == -128);
  CHECK(file.get_real("i64").value() == -0x1p63);
  CHECK(file.get_real("f32").value() == 1.5);
  CHECK(file.get_real("f64").value() == 0.1);
  CHECK(file.get_bool("bool", false).value());
  CHECK(file.get_string("string").value() == "text");
  CHECK(file.get_array("list", Type::float32).value().count == 3);
  CHECK(file.get_array("texts", Type::string).value().count == 2);
  CHECK(file.get_array("none", Type::string).value().count == 0);
}

std::string first_error(const Writer::Options& options, void (*use)(Writer&)) {
  Writer writer({}, options);
  use(writer);
  return std::string(writer.finish().message());
}

TEST_CASE("a call out of turn or a number that does not fit is an error at the end", "[gguf][writer][error]") {
  const uint64_t dimensions[] = {32};
  static const uint8_t data[128] = {};
  CHECK(first_error({.n_entries = 1}, [](Writer&) {}) ==
        "data comes too early: 0 of 1 entries and 0 of 0 tensors are written");
  CHECK(first_error({.n_entries = 1}, [](Writer& w) { w.add_unsigned("a", Type::uint8, 256); }) ==
        "a cannot be 256 as uint8");
  CHECK(first_error({.n_entries = 1}, [](Writer& w) { w.add_unsigned("a", Type::int8, 128); }) ==
        "a cannot be 128 as int8");
  CHECK(first_error({.n_entries = 1}, [](Writer& w) { w.add_unsigned("a", Type::float32, 1); }) ==
        "a cannot be 1 as float32");
  CHECK(first_error({.n_entries = 1}, [](Writer& w) { w.add_signed("a", Type::int8, -129); }) ==
        "a cannot be -129 as int8");
  CHECK(first_error({.n_entries = 1}, [](Writer& w) {
          w.add_bool("a", true);
          w.add_bool("b", true);
        }) == "b is one more than the 1 entries announced");
  CHECK(first_error({.n_entries = 2}, [](Writer& w) {
          w.begin_strings("a", 2);
          w.put_string("x");
          w.add_bool("b", true);
        }) == "b comes too late: an array of strings is not finished");
  CHECK(first_error({.n_entries = 1}, [](Writer& w) { w.put_string("x"); }) ==
        "a string comes without an array that waits for it");
  CHECK(first_error({.n_entries = 1, .version = 1}, [](Writer&) {}) == "GGUF version 1 cannot be written, 2 and 3 can");
  CHECK(first_error({.n_entries = 1, .alignment = 24}, [](Writer&) {}) ==
        "alignment 24 cannot be written, a power of two from 8 to 1048576 can");
  CHECK(first_error({.n_entries = 2000}, [](Writer&) {}) ==
        "2000 metadata entries and 0 tensors are more than the reader's 1024 and 16384");
  CHECK(first_error({.n_tensors = 1}, [](Writer& w) {
          const uint64_t odd[] = {33};
          w.add_tensor("t", Format::q8_0, odd);
        }) == "tensor t cannot be written: its name or dimensions do not fit q8_0");
  CHECK(dimensions[0] == 32);
  CHECK(first_error({.n_tensors = 1}, [](Writer& w) {
          const uint64_t columns[] = {32};
          w.add_tensor("t", Format::f32, columns);
          w.add_data({data, 127});
          w.end_tensor();
        }) == "1 tensors with 128 bytes of data were announced, 1 with 128 bytes came");
  CHECK(first_error({.n_tensors = 1}, [](Writer& w) {
          const uint64_t columns[] = {32};
          w.add_tensor("t", Format::f32, columns);
          w.add_data({data, 128});
        }) == "1 tensors with 128 bytes of data were announced, 0 with 128 bytes came");
  CHECK(first_error({.n_tensors = 1}, [](Writer& w) { w.end_tensor(); }) ==
        "data comes too early: 0 of 0 entries and 0 of 1 tensors are written");
}

TEST_CASE("what the reader would refuse is not written", "[gguf][writer][error]") {
  const Writer::Options one{.n_entries = 1};
  CHECK(first_error({.n_entries = 1, .alignment = 4}, [](Writer&) {}) ==
        "alignment 4 cannot be written, a power of two from 8 to 1048576 can");
  CHECK(first_error({.n_entries = 1, .alignment = 1u << 21}, [](Writer&) {}) ==
        "alignment 2097152 cannot be written, a power of two from 8 to 1048576 can");
  CHECK(first_error({.n_entries = 1024, .alignment = 64}, [](Writer&) {}) ==   // its own entry is one too many
        "1024 metadata entries and 0 tensors are more than the reader's 1024 and 16384");
  CHECK(first_error({.n_tensors = 16385}, [](Writer&) {}) ==
        "0 metadata entries and 16385 tensors are more than the reader's 1024 and 16384");
  CHECK(first_error(one, [](Writer& w) { w.add_bool("", true); }) == "a metadata key is empty");
  CHECK(first_error(one, [](Writer& w) { w.add_signed("a", Type::int8, 128); }) == "a cannot be 128 as int8");
  CHECK(first_error(one, [](Writer& w) { w.add_signed("a", Type::uint8, 1); }) == "a cannot be 1 as uint8");
  CHECK(first_error(one, [](Writer& w) { w.add_array("a", Type::string, nullptr, 1); }) ==
        "a cannot be an array of 1 string");
  CHECK(first_error(one, [](Writer& w) { w.add_array("a", Type::uint64, nullptr, uint64_t{1} << 62); }) ==
        "a cannot be an array of 4611686018427387904 uint64");
  CHECK(first_error(one, [](Writer& w) {
          const uint8_t value[4] = {64};
          w.add_entry({"general.alignment", Type::uint32, Type::uint32, 1, value, 4});
        }) == "general.alignment is written by the writer itself");
  CHECK(first_error({.n_entries = 1, .version = 1}, [](Writer& w) { w.add_unsigned("a", Type::uint8, 256); }) ==
        "GGUF version 1 cannot be written, 2 and 3 can");   // the first error stays
}

TEST_CASE("tensors out of turn or of odd shapes are not written", "[gguf][writer][error]") {
  const auto adding = [](std::string_view name, std::vector<std::vector<uint64_t>> tensors, Writer::Options options) {
    Writer writer({}, options);
    for (const std::vector<uint64_t>& dimensions : tensors) writer.add_tensor(name, Format::f32, dimensions);
    if (writer.status().ok()) writer.add_data({});
    return std::string(writer.finish().message());
  };
  CHECK(adding("t", {{1}}, {.n_entries = 1, .n_tensors = 1}) ==
        "tensor t comes out of turn: 0 of 1 entries and 0 of 1 tensors are written");
  CHECK(adding("t", {{1}, {1}}, {.n_tensors = 1}) ==
        "tensor t comes out of turn: 0 of 0 entries and 1 of 1 tensors are written");
  CHECK(adding("t", {{1}}, {.n_tensors = 2}) == "data comes too early: 0 of 0 entries and 1 of 2 tensors are written");
  const uint64_t large = uint64_t{1} << 32;
  for (const std::vector<uint64_t>& odd : {std::vector<uint64_t>{},
                                           {1, 1, 1, 1, 1},
                                           {0},
                                           {3, 0},
                                           {large, large},
                                           {uint64_t{1} << 58},
                                           {uint64_t{1} << 63}})
    CHECK(adding("t", {odd}, {.n_tensors = 1}) == "tensor t cannot be written: its name or dimensions do not fit f32");
  CHECK(adding("", {{1}}, {.n_tensors = 1}) == "tensor  cannot be written: its name or dimensions do not fit f32");
  const std::vector<uint64_t> half = {uint64_t{1} << 57};   // 2^59 bytes
  CHECK(adding("t", {half, half, {1}}, {.n_tensors = 3}) ==
        "tensor t cannot be written: its name or dimensions do not fit f32");
}

TEST_CASE("a sink that fails is reported with the place and not called again", "[gguf][writer][error]") {
  struct Full {
    int calls = 0;
    int last = 0;
    static bool write(void* user, const void*, size_t) {
      auto* full = static_cast<Full*>(user);
      return ++full->calls < full->last;
    }
  };
  for (int last = 1; last <= 12; ++last) {
    Full full{0, last};
    Writer writer({&full, Full::write}, {.n_entries = 2});
    writer.add_bool("a", true);
    writer.add_bool("b", true);
    const Status status = writer.finish();
    CHECK(status.code() == Code::io);
    if (last == 4) CHECK(status.message() == "writing failed at byte 16");
    CHECK(full.calls == last);
  }
}

}   // namespace
