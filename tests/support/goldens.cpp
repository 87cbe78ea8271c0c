#include "tests/support/goldens.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace mote::test {

bool goldens_are_full() {
  const char* named = std::getenv("MOTE_GOLDENS_DIR");
  return named != nullptr && *named != 0;
}

std::filesystem::path goldens_dir() {
  if (!goldens_are_full()) return MOTE_TEST_DATA_DIR;
  std::filesystem::path named = std::getenv("MOTE_GOLDENS_DIR");
  if (!std::filesystem::is_directory(named))
    throw std::runtime_error("MOTE_GOLDENS_DIR is no folder: " + named.string());
  return named;
}

std::vector<uint8_t> read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path.string());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string read_text(const std::filesystem::path& path) {
  const std::vector<uint8_t> bytes = read_bytes(path);
  return {bytes.begin(), bytes.end()};
}

std::vector<float> read_f32(const std::filesystem::path& path) {
  const std::vector<uint8_t> bytes = read_bytes(path);
  if (bytes.size() % sizeof(float) != 0) throw std::runtime_error("not a whole number of floats: " + path.string());
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}   // namespace mote::test
