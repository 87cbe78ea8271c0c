#include "tests/support/char_map.h"

#include <cstring>
#include <set>

namespace mote::test {
namespace {

constexpr uint32_t kValueBit = 0x80000000u;   // also of units that nothing leads to

// A double array: the successors of a step lie at `base ^ byte`, and its value at `base`.
class DoubleArray {
 public:
  explicit DoubleArray(const std::map<std::string, uint32_t>& values) : values_(values), units_(1, 0) {
    used_.insert(0);
    place(std::string(), 0);
  }
  const std::vector<uint32_t>& units() const { return units_; }

 private:
  // Gives the successors of the step that `prefix` led to, which lies at `at`, their places.
  void place(const std::string& prefix, uint32_t at) {
    const auto value = values_.find(prefix);
    std::set<uint8_t> bytes;
    for (auto it = values_.upper_bound(prefix); it != values_.end() && it->first.starts_with(prefix); ++it)
      bytes.insert(static_cast<uint8_t>(it->first[prefix.size()]));
    std::set<uint8_t> labels = bytes;
    if (value != values_.end()) labels.insert(0);
    uint32_t base = 1;
    const auto fits = [&] {
      for (const uint8_t label : labels)
        if (used_.count(base ^ label) != 0) return false;
      return bases_.count(base) == 0;
    };
    while (!fits()) ++base;
    bases_.insert(base);
    units_[at] |= (at ^ base) << 10 | (value != values_.end() ? 1u << 8 : 0u);
    for (const uint8_t label : labels) {
      used_.insert(base ^ label);
      if (units_.size() <= (base ^ label)) units_.resize((base ^ label) + 1, kValueBit);
      units_[base ^ label] = label;
    }
    if (value != values_.end()) units_[base] = kValueBit | value->second;
    for (const uint8_t byte : bytes) place(prefix + static_cast<char>(byte), base ^ byte);
  }

  const std::map<std::string, uint32_t>& values_;
  std::vector<uint32_t> units_;
  std::set<uint32_t> used_, bases_;
};

}   // namespace

std::vector<uint8_t> char_map(const std::map<std::string, std::string>& replacements) {
  std::string texts;
  std::map<std::string, uint32_t> values;
  for (const auto& [from, to] : replacements) {
    values[from] = static_cast<uint32_t>(texts.size());
    texts += to + '\0';
  }
  const DoubleArray trie(values);
  const auto trie_bytes = static_cast<uint32_t>(4 * trie.units().size());
  std::vector<uint8_t> bytes(4 + trie_bytes);
  std::memcpy(bytes.data(), &trie_bytes, 4);
  std::memcpy(bytes.data() + 4, trie.units().data(), trie_bytes);
  bytes.insert(bytes.end(), texts.begin(), texts.end());
  return bytes;
}

}   // namespace mote::test
