#include "examples/cli/numbers.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "examples/cli/failure.h"

namespace cli {
namespace {

std::optional<uint64_t> whole_number(std::string_view text) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

std::string range_text(uint64_t least, uint64_t most) { return std::to_string(least) + " to " + std::to_string(most); }

// Calls take(item) for each item between commas, also for an empty one, until it returns false.
template <class Take>
bool each_item(std::string_view text, Take&& take) {
  while (true) {
    const size_t comma = text.find(',');
    if (!take(text.substr(0, comma))) return false;
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
}

constexpr size_t kMostCounts = 1000;   // of a list

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

}   // namespace

CLI::Validator decimal(uint64_t least, uint64_t most) {
  return CLI::Validator(
      [=](std::string& text) {
        const std::optional<uint64_t> value = whole_number(text);
        if (!value || *value < least || *value > most)
          return "'" + text + "' is not a whole number from " + range_text(least, most);
        text = std::to_string(*value);   // without leading zeros, which CLI11 would read as octal
        return std::string();
      },
      range_text(least, most));
}

namespace {

CLI::Validator number_in(double least, double most, bool least_passes) {
  return CLI::Validator(
      [=](std::string& text) {
        double value = 0;
        const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool is_number = code == std::errc() && end == text.data() + text.size();
        if (is_number && (least_passes ? value >= least : value > least) && value <= most) return std::string();
        return "'" + text + "' is not a number " + (least_passes ? "from " : "above ") + CLI::detail::to_string(least) +
               (least_passes ? " to " : ", up to ") + CLI::detail::to_string(most);
      },
      "NUMBER");
}

}   // namespace

CLI::Validator number_between(double least, double most) { return number_in(least, most, true); }
CLI::Validator number_above(double least, double most) { return number_in(least, most, false); }

namespace {

// "8", "1-4", "1-9+2" or "1-64*2": adds what it stands for; false for anything else, and beyond the limits.
bool add_counts(std::string_view item, uint32_t least, uint32_t most, std::vector<uint32_t>* counts) {
  const size_t dash = item.find('-');
  std::string_view last_text = dash == std::string_view::npos ? item : item.substr(dash + 1);
  const size_t sign = last_text.find_first_of("+*");
  uint64_t step = 1;
  bool multiplies = false;
  if (sign != std::string_view::npos && dash != std::string_view::npos) {
    multiplies = last_text[sign] == '*';
    const std::optional<uint64_t> given = whole_number(last_text.substr(sign + 1));
    if (!given || *given > most) return false;
    step = *given;
    last_text = last_text.substr(0, sign);
  }
  const std::optional<uint64_t> first = whole_number(item.substr(0, dash)), last = whole_number(last_text);
  if (!first || !last || *first < least || *last > most || *first > *last) return false;
  for (uint64_t value = *first; value <= *last; value = multiplies ? value * step : value + step) {
    if (counts->size() == kMostCounts) return false;   // some would never end
    counts->push_back(static_cast<uint32_t>(value));
  }
  return true;
}

}   // namespace

CLI::Validator counts_between(uint32_t least, uint32_t most) {
  return CLI::Validator(
      [=](std::string& text) {
        std::vector<uint32_t> counts;
        if (each_item(text, [&](std::string_view item) { return add_counts(item, least, most, &counts); }))
          return std::string();
        return "'" + text + "' is not a list of whole numbers from " + range_text(least, most) +
               ", or of ranges of them such as 1-4, 2-8+2 or 1-64*2; at most " + std::to_string(kMostCounts);
      },
      range_text(least, most));
}

CLI::Validator not_empty() {
  return CLI::Validator(
      [](std::string& text) {
        return text.find_first_not_of(" ,") == std::string::npos ? std::string("an empty value means nothing here")
                                                                 : std::string();
      },
      "");
}

std::vector<uint32_t> parse_counts(const std::vector<std::string>& texts) {
  std::vector<uint32_t> counts;
  for (const std::string& text : texts) {
    std::vector<uint32_t> more;
    each_item(text, [&](std::string_view item) { return add_counts(item, 0, UINT32_MAX, &more); });
    counts.insert(counts.end(), more.begin(), more.end());
  }
  return counts;
}

std::vector<int32_t> parse_ids(const std::string& text, const char* what) {
  std::vector<int32_t> ids;
  if (without_blanks(text).empty()) return ids;
  each_item(text, [&](std::string_view item) {
    item = without_blanks(item);
    if (item.empty())
      throw Failure{kWrongUsage, std::string(what) + ": there is no token id before or after one of the commas"};
    while (!item.empty()) {   // blanks separate, too
      size_t length = 0;
      while (length < item.size() && !is_blank(item[length])) ++length;
      const std::string_view word = item.substr(0, length);
      const std::optional<uint64_t> id = whole_number(word);
      if (!id || *id > INT32_MAX)
        throw Failure{kWrongUsage, std::string(what) + ": '" + std::string(word.substr(0, 20)) + "' is not a token id"};
      ids.push_back(static_cast<int32_t>(*id));
      item = without_blanks(item.substr(length));
    }
    return true;
  });
  return ids;
}

}   // namespace cli
