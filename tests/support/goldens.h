// Where the golden data is, and small readers for it. Failures are exceptions: a test that cannot read its data fails.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace mote::test {

// The folder MOTE_GOLDENS_DIR names (the full set), else the small set kept in tests/golden/data.
std::filesystem::path goldens_dir();
// True when MOTE_GOLDENS_DIR names the full set: then nothing may be missing.
bool goldens_are_full();

std::vector<uint8_t> read_bytes(const std::filesystem::path& path);
std::string read_text(const std::filesystem::path& path);
std::vector<float> read_f32(const std::filesystem::path& path);

}   // namespace mote::test
