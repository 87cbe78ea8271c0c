// The typed getters: legal but unusual spellings are taken, everything else is named.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <string>

#include "tests/gguf/exact.h"

namespace {

using namespace mote;
using namespace mote::gguf;
using namespace mote::test;

GgufBuilder odd_entries() {
  GgufBuilder model;
  model.set("u8", Type::uint8, uint8_t{12});
  model.set("i16", Type::int16, int16_t{12});
  model.set("u64", Type::uint64, uint64_t{12});
  model.set("big", Type::uint64, UINT64_MAX);
  model.set("negative", Type::int32, int32_t{-1});
  model.set("low", Type::int64, INT64_MIN);
  model.set("f32", Type::float32, 12.5f);
  model.set("f64", Type::float64, 1e-6);
  model.set("nan", Type::float32, std::nanf(""));
  model.set("infinite", Type::float64, -static_cast<double>(INFINITY));
  model.set_bool("true", true);
  model.set_string("text", "hello");
  model.set_string("empty", "");
  model.set_array("list", Type::int8, std::vector<int8_t>{4, 2, -1});
  model.set_array("bools", Type::boolean, std::vector<uint8_t>{1, 0, 1});
  model.set_strings("texts", {"a", "b", "c"});
  return model;
}

TEST_CASE("integers of every width serve where the value fits", "[gguf][metadata]") {
  const Exact bytes(odd_entries().bytes(), 1);
  const Result<File> opened = File::open(bytes.span());
  REQUIRE(opened.status().message() == "");
  const File& file = opened.value();
  for (const char* key : {"u8", "i16", "u64"}) {
    CHECK(file.get_unsigned(key, 1, 100).value() == 12);
    CHECK(file.get_unsigned(key, 12, 12, 5).value() == 12);
    CHECK(file.get_real(key).value() == 12.0);
  }
  CHECK(file.get_unsigned("big", 0, UINT64_MAX).value() == UINT64_MAX);
  CHECK(file.get_unsigned("absent", 0, 9, 5).value() == 5);
  CHECK(file.get_real("low").value() == -0x1p63);
  CHECK(file.get_real("f32").value() == 12.5);
  CHECK(file.get_real("f64").value() == 1e-6);
  CHECK(file.get_real("absent", 0.25).value() == 0.25);
  CHECK(file.get_bool("true", false).value());
  CHECK(file.get_bool("absent", true).value());
  CHECK(file.get_string("text").value() == "hello");
  CHECK(file.get_string("empty").value().empty());
  CHECK(file.get_string("absent", "else").value() == "else");
}

TEST_CASE("a scalar counts for every layer and a list must have one value for each", "[gguf][metadata]") {
  const Exact bytes(odd_entries().bytes());
  const Result<File> opened = File::open(bytes.span());
  REQUIRE(opened.status().message() == "");
  const File& file = opened.value();
  CHECK(file.get_unsigned_at("u8", 7, 30, 1, 100).value() == 12);
  CHECK(file.get_unsigned_at("list", 0, 3, 1, 100).value() == 4);
  CHECK(file.get_unsigned_at("list", 1, 3, 1, 100).value() == 2);
  const auto message = [](const Result<uint64_t>& result) { return std::string(result.status().message()); };
  CHECK(message(file.get_unsigned_at("list", 2, 3, 1, 100)) == "list is -1, 1 to 100 is allowed");
  CHECK(!file.get_unsigned_at("list", 3, 3, 1, 100).ok());
  CHECK(message(file.get_unsigned_at("list", 0, 4, 1, 100)) ==
        "list is an array of 3 int8, an integer or a list of 4 is expected");
  CHECK(message(file.get_unsigned_at("bools", 0, 3, 0, 1)) ==
        "bools is an array of 3 bool, an integer or a list of them is expected");
  CHECK(message(file.get_unsigned_at("texts", 0, 3, 0, 1)) ==
        "texts is an array of 3 string, an integer or a list of them is expected");
  CHECK(message(file.get_unsigned_at("absent", 0, 3, 0, 1)) == "the file has no absent");
  const auto refusal = [](const Result<bool>& result) { return std::string(result.status().message()); };
  CHECK(file.get_bool_at("bools", 1, 3, false).ok());
  CHECK(file.get_bool_at("absent", 1, 3, true).value());
  CHECK(file.get_bool_at("true", 9, 3, false).value());
  CHECK(refusal(file.get_bool_at("list", 0, 3, false)) == "list is 4, 0 to 1 is allowed");
  CHECK(refusal(file.get_bool_at("bools", 0, 2, false)) ==
        "bools is an array of 3 bool, a bool or a list of 2 is expected");
  CHECK(refusal(file.get_bool_at("texts", 0, 3, false)) ==
        "texts is an array of 3 string, a bool or a list of them is expected");
}

TEST_CASE("what a getter refuses is named with what was found and what is allowed", "[gguf][metadata][error]") {
  const Exact bytes(odd_entries().bytes());
  const Result<File> opened = File::open(bytes.span());
  REQUIRE(opened.status().message() == "");
  const File& file = opened.value();
  const auto says = [](const Status& status) {
    CHECK(status.code() == Code::bad_model);
    return std::string(status.message());
  };
  CHECK(says(file.get_unsigned("absent", 0, 1).status()) == "the file has no absent");
  CHECK(says(file.get_unsigned("u8", 13, 20).status()) == "u8 is 12, 13 to 20 is allowed");
  CHECK(says(file.get_unsigned("u8", 0, 11, 5).status()) == "u8 is 12, 0 to 11 is allowed");
  CHECK(says(file.get_unsigned("negative", 0, 9).status()) == "negative is -1, 0 to 9 is allowed");
  CHECK(says(file.get_unsigned("low", 0, 9).status()) == "low is -9223372036854775808, 0 to 9 is allowed");
  CHECK(says(file.get_unsigned("f32", 0, 99).status()) == "f32 is of type float32, an integer is expected");
  CHECK(says(file.get_unsigned("f64", 0, 99).status()) == "f64 is of type float64, an integer is expected");
  CHECK(says(file.get_unsigned("true", 0, 1).status()) == "true is of type bool, an integer is expected");
  CHECK(says(file.get_unsigned("list", 0, 1).status()) == "list is an array of 3 int8, an integer is expected");
  CHECK(says(file.get_real("nan").status()) == "nan is nan, a finite number is expected");
  CHECK(says(file.get_real("infinite").status()) == "infinite is -inf, a finite number is expected");
  CHECK(says(file.get_real("text").status()) == "text is of type string, a number is expected");
  CHECK(says(file.get_bool("u8", false).status()) == "u8 is 12, 0 to 1 is allowed");
  CHECK(says(file.get_bool("text", false).status()) == "text is of type string, a bool is expected");
  CHECK(says(file.get_string("u8").status()) == "u8 is of type uint8, a string is expected");
  CHECK(says(file.get_string("absent").status()) == "the file has no absent");
  CHECK(says(file.get_array("u8", Type::string).status()) == "u8 is of type uint8, an array of string is expected");
  CHECK(says(file.get_array("text", Type::string).status()) ==
        "text is of type string, an array of string is expected");
  CHECK(says(file.get_array("list", Type::string).status()) ==
        "list is an array of int8, an array of string is expected");
  CHECK(says(file.get_array("absent", Type::string).status()) == "the file has no absent");
}

}   // namespace
