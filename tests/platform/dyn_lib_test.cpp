// Libraries that are looked for at run time.
#include "platform/dyn_lib.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

TEST_CASE("A library that is there gives its symbols, and none that it does not have", "[platform][dyn_lib]") {
  mote::DynLib library;
  REQUIRE(mote::open_dyn_lib("libm.so.6", &library).ok());
  using Function = double (*)(double);
  const auto root = reinterpret_cast<Function>(mote::dyn_lib_symbol(library, "sqrt"));
  REQUIRE(root != nullptr);
  CHECK(root(9.0) == 3.0);
  CHECK(mote::dyn_lib_symbol(library, "no_such_function") == nullptr);
  mote::close_dyn_lib(&library);
  CHECK(library.handle == nullptr);
  mote::close_dyn_lib(&library);
}

TEST_CASE("A library that is not there is an error, and has no symbols", "[platform][dyn_lib]") {
  mote::DynLib library;
  const mote::PlatformError error = mote::open_dyn_lib("libno-such-library.so.7", &library);
  CHECK(std::string(error.what) == "cannot be opened");
  CHECK(mote::dyn_lib_symbol(library, "sqrt") == nullptr);
}
