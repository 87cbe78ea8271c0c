#include "core/gguf/tensor_index.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "tests/gguf/exact.h"
#include "tests/support/toy_model.h"

namespace {

using namespace mote;
using namespace mote::gguf;
using namespace mote::test;

struct Memory {
  explicit Memory(uint64_t bytes) : bytes_(new uint8_t[bytes + 64]) {
    at = bytes_.get();
    while (reinterpret_cast<uintptr_t>(at) % 64 != 0) ++at;
    std::memset(at, 0xff, bytes);
  }
  uint8_t* at;

 private:
  std::unique_ptr<uint8_t[]> bytes_;
};

uint64_t measured(const File& file) {
  Arena arena;
  CHECK(TensorIndex::create(file, arena).ok());
  return arena.used_bytes();
}

TEST_CASE("every tensor is found by its name in memory of exactly the measured size", "[gguf][index]") {
  const GgufBuilder model = toy_llama({.n_layers = 9});
  const Exact bytes(model.bytes());
  const Result<File> file = File::open(bytes.span());
  REQUIRE(file.ok());
  const uint64_t size = measured(file.value());
  const Memory memory(size);
  Arena arena(memory.at, size);
  const Result<TensorIndex> index = TensorIndex::create(file.value(), arena);
  REQUIRE(index.ok());
  CHECK(index.value().tensors().size() == model.parts.size());
  int wrong = 0;
  for (const GgufBuilder::TensorPart& part : model.parts) {
    const Tensor* tensor = index.value().find(part.name);
    wrong += tensor == nullptr || tensor->name != part.name || tensor->bytes != part.data.size();
    wrong += index.value().find(part.name + "x") != nullptr;
    wrong += index.value().find(part.name.substr(1)) != nullptr;
  }
  CHECK(wrong == 0);
  CHECK(index.value().find("") == nullptr);

  Arena small(memory.at, size - 64);
  CHECK(TensorIndex::create(file.value(), small).status().code() == Code::out_of_memory);
}

std::string refusal(const GgufBuilder& model) {
  const Exact bytes(model.bytes());
  const Result<File> file = File::open(bytes.span());
  if (!file.ok()) return "the file: " + std::string(file.status().message());
  const Memory memory(1 << 16);
  Arena arena(memory.at, 1 << 16);
  const Status status = TensorIndex::create(file.value(), arena).status();
  return status.ok() ? "(it opened)" : std::string(status.message());
}

TEST_CASE("two tensors of one name or of the same bytes are refused", "[gguf][index][error]") {
  GgufBuilder model;
  model.set_string("general.architecture", "llama");
  for (const char* name : {"a", "b", "c"}) model.add_tensor(name, Format::f32, {9}, Bytes(36, 1));
  CHECK(refusal(model) == "(it opened)");

  GgufBuilder twice = model;
  twice.parts[2].name = "a";
  CHECK(refusal(twice) == "tensor a is there twice, as numbers 0 and 2 of 3");

  GgufBuilder overlapping = model;
  overlapping.parts[2].offset = 32;   // b is at 64 .. 100, a at 0 .. 36
  const std::string data = std::to_string((model.header().size() + 31) / 32 * 32 + 36);
  CHECK(refusal(overlapping).starts_with("tensors a and c overlap: the one ends at byte " + data));

  GgufBuilder same = model;
  same.parts[1].offset = 0;
  CHECK(refusal(same).find("overlap") != std::string::npos);

  GgufBuilder reversed = model;   // any order is fine as long as nothing overlaps
  reversed.parts[0].offset = 128;
  reversed.parts[2].offset = 0;
  CHECK(refusal(reversed) == "(it opened)");
}

TEST_CASE("a file without tensors has an empty index", "[gguf][index]") {
  GgufBuilder model;
  model.set_string("general.architecture", "llama");
  const Exact bytes(model.bytes());
  const Result<File> file = File::open(bytes.span());
  REQUIRE(file.ok());
  CHECK(measured(file.value()) == 0);
  const Memory memory(64);
  Arena arena(memory.at, 64);
  const Result<TensorIndex> index = TensorIndex::create(file.value(), arena);
  REQUIRE(index.ok());
  CHECK(index.value().find("a") == nullptr);
}

}   // namespace
