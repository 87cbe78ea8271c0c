// How alike texts are: similarity MODEL.gguf "first" "second" ... prints the cosine of each pair.
#include <cstdio>
#include <span>
#include <string_view>
#include <vector>

#include "core/mote.hpp"

namespace {

int fail(const mote::Error& error) {
  std::fprintf(stderr, "similarity: %s\n", error.message());
  return 1;
}

// Of vectors of length 1, which mote_embedding hands over.
double cosine(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

}   // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: similarity MODEL.gguf TEXT...\n", stderr);
    return 2;
  }
  mote::Engine engine;   // closed last
  mote::Model model;
  mote::Session session;
  mote::Error error;
  if (!engine.open({}, &error) || !model.open(engine, mote::Source::file(argv[1]), {}, &error) ||
      !session.open(model, {}, &error))
    return fail(error);

  std::vector<std::vector<float>> vectors;
  for (const std::string_view text : std::span(argv, static_cast<size_t>(argc)).subspan(2)) {
    std::vector<int32_t> tokens(text.size() + 8);   // more than any text of so many bytes has
    size_t count = 0;
    if (!model.tokenize(text, MOTE_ADD_SPECIAL, tokens, &count, &error) ||
        !session.encode(std::span(tokens).first(count), &error))
      return fail(error);
    const std::span<const float> vector = session.embedding(0, &error);   // until the session's next call
    if (vector.empty()) return fail(error);
    vectors.emplace_back(vector.begin(), vector.end());
  }
  for (const std::vector<float>& a : vectors) {
    for (const std::vector<float>& b : vectors) std::printf("%7.4f", cosine(a, b));
    std::printf("\n");
  }
  return 0;
}
