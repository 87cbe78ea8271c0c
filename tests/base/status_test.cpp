#include "core/base/status.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "core/base/result.h"

namespace {

using namespace mote;

std::string said(const Status& status) { return std::string(status.message()); }

TEST_CASE("a default status is ok and says nothing", "[base][status]") {
  const Status status;
  CHECK(status.ok());
  CHECK(status.code() == Code::ok);
  CHECK(said(status).empty());
  CHECK(*status.c_str() == 0);
}

TEST_CASE("a sentence takes its arguments in order", "[base][status]") {
  const Status status = Status::error(Code::bad_model, "tensor {} ends at byte {}, file has {}", "blk.3.ffn_up.weight",
                                      uint64_t{91234304}, 91000000);
  CHECK_FALSE(status.ok());
  CHECK(status.code() == Code::bad_model);
  CHECK(said(status) == "tensor blk.3.ffn_up.weight ends at byte 91234304, file has 91000000");
}

TEST_CASE("integers are written in full at both ends", "[base][status]") {
  CHECK(said(Status::error(Code::io, "{} {} {} {}", INT64_MIN, INT64_MAX, UINT64_MAX, 0)) ==
        "-9223372036854775808 9223372036854775807 18446744073709551615 0");
}

TEST_CASE("real numbers are written as a person would", "[base][status]") {
  const auto shown = [](double value) { return said(Status::error(Code::io, "{}", value)); };
  CHECK(shown(0) == "0");
  CHECK(shown(1.5) == "1.5");
  CHECK(shown(-0.8) == "-0.8");
  CHECK(shown(1e-5) == "0.00001");
  CHECK(shown(10000) == "10000");
  CHECK(shown(std::numeric_limits<double>::infinity()) == "inf");
  CHECK(shown(-std::numeric_limits<double>::infinity()) == "-inf");
  CHECK(shown(std::nan("")) == "nan");
  CHECK(shown(1e300) == "1e300");
  CHECK(shown(5e-324) == "494066e-329");
  CHECK(shown(999999.5) == "1000000");
}

TEST_CASE("a sentence within another one is shown whole", "[base][status]") {
  const Status inner = Status::error(Code::io, "{} and {}", std::string(90, 'a'), std::string(90, 'b'));
  CHECK(said(Status::error(Code::io, "it failed: {}; so", inner)) == "it failed: " + said(inner) + "; so");
}

TEST_CASE("hostile text is escaped and cut so that the rest of the sentence stays", "[base][status]") {
  const std::string name(5000, 'x');
  const std::string text = said(Status::error(Code::bad_model, "key {} is not known", name));
  CHECK(text.size() < Status::kCapacity);
  CHECK(text.substr(text.size() - 16) == "... is not known");
  CHECK(said(Status::error(Code::io, "{}", std::string_view("a\n\x1b[31m\xff\0b", 10))) ==
        "a\\x0a\\x1b[31m\\xff\\x00b");
}

TEST_CASE("a sentence that is too long is cut and ended", "[base][status]") {
  const std::string pattern(1000, 'y');
  const Status status = Status::error(Code::io, pattern);
  CHECK(status.message().size() == Status::kCapacity - 1);
  CHECK(status.c_str()[Status::kCapacity - 1] == 0);
}

TEST_CASE("placeholders and arguments may differ in number", "[base][status]") {
  CHECK(said(Status::error(Code::io, "{} and {}", 1)) == "1 and ");
  CHECK(said(Status::error(Code::io, "{}", 1, 2)) == "1");
  CHECK(said(Status::error(Code::io, "{ } {", 1)) == "{ } {");
  CHECK(said(Status::error(Code::io, "{}", static_cast<const char*>(nullptr))) == "(null)");
}

TEST_CASE("a copied status keeps its sentence", "[base][status]") {
  Status copy;
  {
    const Status original = Status::error(Code::io, "file {} is gone", "m.gguf");
    copy = original;
  }
  CHECK(copy.code() == Code::io);
  CHECK(said(copy) == "file m.gguf is gone");
}

Result<int> half_of(int value) {
  if (value % 2 != 0) return Status::error(Code::invalid_argument, "{} is odd", value);
  return value / 2;
}
Status quarter_of(int value, int* quarter) {
  MOTE_ASSIGN_OR_RETURN(const int half, half_of(value));
  MOTE_ASSIGN_OR_RETURN(*quarter, half_of(half));
  MOTE_RETURN_IF_ERROR(Status());
  return {};
}

TEST_CASE("a result carries a value or the reason why there is none", "[base][result]") {
  int quarter = 0;
  CHECK(quarter_of(12, &quarter).ok());
  CHECK(quarter == 3);
  CHECK(said(quarter_of(6, &quarter)) == "3 is odd");
  CHECK(said(quarter_of(5, &quarter)) == "5 is odd");
}

}   // namespace
