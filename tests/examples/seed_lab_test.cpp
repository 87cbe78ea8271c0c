// The models of examples/seed_lab, from text to text: reviews that no model has seen are scored as they were meant, and
// dates in words become ISO. As often right as PyTorch was with the same weights. (tests/golden compares the numbers.)
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <nlohmann/json.hpp>

#include "tests/api/kit.h"
#include "tests/support/goldens.h"

namespace mote::test {
namespace {

struct LabModel {
  Engine engine;
  nlohmann::json reference;
  Model model;
  mote_session* session = nullptr;   // not the kit's, which encodes tokens that the vocabularies here do not have

  explicit LabModel(const std::string& name)
      : engine("cpu"),
        reference(nlohmann::json::parse(read_text(MOTE_SEED_LAB "/" + name + ".ref.json"))),
        model(engine, read_bytes(MOTE_SEED_LAB "/" + name + ".gguf")) {
    const mote_session_options options = session_options(64, 64);
    mote_error error{};
    must(mote_session_open(model, &options, {}, &session, &error), error);
  }
  LabModel(const LabModel&) = delete;
  LabModel& operator=(const LabModel&) = delete;
  ~LabModel() { mote_session_close(session, nullptr); }

  void read(const std::string& text) {
    Tokens tokens(text.size() + 2);
    size_t count = 0;
    mote_error error{};
    must(mote_tokenize(model, text.data(), text.size(), MOTE_ADD_SPECIAL, {}, tokens.data(), tokens.size(), &count,
                       &error),
         error);
    tokens.resize(count);
    encode(session, tokens);
  }
  // The score of "positive" less that of "negative".
  float score(const std::string& text) {
    read(text);
    const float* scores = nullptr;
    size_t count = 0;
    mote_error error{};
    must(mote_embedding(session, MOTE_EMBEDDING_RAW, &scores, &count, &error), error);
    REQUIRE(count == 2);
    return scores[1] - scores[0];
  }
  std::string iso(const std::string& text) {
    read(text);
    mote_model_info info{};
    info.struct_bytes = sizeof info;
    REQUIRE(mote_model_get_info(model, &info, nullptr) == MOTE_OK);
    feed(session, {info.bos_token});
    const Answer said = answer(session, 16);
    CHECK(said.finish == MOTE_FINISH_END_TOKEN);
    return said.text.substr(said.text.find_first_not_of(' '));   // a word begins with a blank
  }
};

TEST_CASE("Held-out reviews are scored as they were meant", "[examples][seed_lab]") {
  LabModel lab(GENERATE("reviews-mean", "reviews-attention"));
  size_t right = 0, total = 0;
  for (const auto& held_out : lab.reference["held_out"]) {
    right += (lab.score(held_out[0]) > 0) == (held_out[1] == 1) ? 1 : 0;
    ++total;
  }
  CHECK(total == 400);
  CHECK(right == lab.reference["right"]);
  CHECK(right >= 392);
  CHECK(lab.score("the acting was wonderful") > 0);
  CHECK(lab.score("the acting was not wonderful") < 0);
  CHECK(lab.score("the music was dull but the ending was superb") > 0);
}

TEST_CASE("Dates in words become ISO", "[examples][seed_lab]") {
  LabModel lab("dates");
  CHECK(lab.iso("the third of march nineteen ninety nine") == "1999-03-03");
  CHECK(lab.iso("Saturday February the twenty ninth two thousand") == "2000-02-29");
  size_t right = 0, total = 0;
  for (const auto& held_out : lab.reference["held_out"]) {
    right += lab.iso(held_out[0]) == held_out[1] ? 1 : 0;
    ++total;
  }
  CHECK(total == 400);
  CHECK(right == lab.reference["right"]);
  CHECK(right >= 396);
}

}   // namespace
}   // namespace mote::test
