// Numbers on the command line: decimal, in full, in a range. CLI11 by itself takes 010 for eight, 0x10 for sixteen and
// -1 for the largest number.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace cli {

// For ->transform(): a whole number, digits alone.
CLI::Validator decimal(uint64_t least, uint64_t most);
// For ->check(): a number with or without a fraction; NaN does not pass.
CLI::Validator number_between(double least, double most);
// The same, but `least` itself does not pass.
CLI::Validator number_above(double least, double most);
// For ->check(): whole numbers with commas between them, and ranges of them, as llama-bench takes them: 8,16 1-4 2-8+2
// 1-64*2.
CLI::Validator counts_between(uint32_t least, uint32_t most);
// For ->check(): a text that is more than blanks and commas.
CLI::Validator not_empty();

// The numbers of texts that counts_between let pass.
std::vector<uint32_t> parse_counts(const std::vector<std::string>& texts);

// Token ids with commas or blanks between them; `what` names the option in messages.
std::vector<int32_t> parse_ids(const std::string& text, const char* what);

}   // namespace cli
