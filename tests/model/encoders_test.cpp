// Files of `bert`, `t5`, `rnn` and `transducer` that are absurd, incomplete or of a variant that is not run: a sentence
// that names the key or the tensor. And what the goldens' one setting does not show: other buckets, plain layers, a
// tied output.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <functional>

#include "tests/api/kit.h"
#include "tests/model/kit.h"
#include "tests/support/toy_weights.h"

namespace mote::test::encoder_files {   // names of its own: tests are compiled several files at once
namespace {

const ToyOptions kSmall{.n_layers = 2, .d_model = 32, .n_heads = 2, .d_ff = 48};

struct Wrong {
  ToyModel toy;
  std::function<void(GgufBuilder&)> change;
  std::vector<std::string> names;   // what the sentence must hold
  mote_status status = MOTE_BAD_MODEL;
};

TEST_CASE("What an encoder's file must say, and may not, is named", "[model][encoders]") {
  constexpr ToyModel bert = toy_bert, t5 = toy_t5, rnn = toy_rnn, classifier = toy_classifier,
                     transducer = toy_transducer;
  const auto labels = [](std::vector<std::string> texts) {
    return [=](GgufBuilder& f) { f.set_strings("rnn.classifier.output_labels", texts); };
  };
  const auto count = [](const char* key, uint32_t value) { return [=](GgufBuilder& f) { f.set_u32(key, value); }; };
  const auto without = [](const char* tensor) { return [=](GgufBuilder& f) { f.remove_tensor(tensor); }; };
  const auto moved = [](const char* from, const char* to) { return [=](GgufBuilder& f) { f.tensor(from).name = to; }; };
  const Wrong table[] = {
      {bert, count("bert.pooling_type", 4), {"bert.pooling_type is 4"}, MOTE_UNSUPPORTED},
      {bert, count("bert.pooling_type", 5), {"bert.pooling_type", "5"}},
      {bert, count("bert.pooling_type", 0xffffffff), {"bert.pooling_type"}},
      {bert, [](GgufBuilder& f) { f.set_string("bert.pooling_type", "mean"); }, {"bert.pooling_type", "string"}},
      {bert, [](GgufBuilder& f) { f.set_bool("bert.attention.causal", true); }, {"causal is true"}, MOTE_UNSUPPORTED},
      {bert, without("token_types.weight"), {"tensor token_types.weight is missing"}},
      {bert, without("position_embd.weight"), {"tensor position_embd.weight is missing"}},
      {bert, without("blk.1.layer_output_norm.bias"), {"tensor blk.1.layer_output_norm.bias is missing"}},
      {bert, without("blk.0.attn_q.bias"), {"tensor blk.0.attn_q.bias is missing"}},
      {bert, count("bert.context_length", 511), {"position_embd.weight", "512", "511"}},
      {bert, moved("blk.1.ffn_up.weight", "cls.weight"), {"tensor blk.1.ffn_up.weight is missing"}},
      {t5, count("t5.attention.relative_buckets_count", 0), {"relative_buckets_count", "4 to 254"}},
      {t5, count("t5.attention.relative_buckets_count", 3), {"relative_buckets_count", "4 to 254"}},
      {t5, count("t5.attention.relative_buckets_count", 255), {"relative_buckets_count", "4 to 254"}},
      {t5, count("t5.attention.relative_buckets_count", 0xffffffff), {"relative_buckets_count"}},
      {t5, count("t5.attention.relative_buckets_count", 33), {"enc.blk.0.attn_rel_b.weight", "[2, 32", "[2, 33]"}},
      {t5, count("t5.decoder_block_count", 0), {"decoder_block_count"}},
      {t5, count("t5.decoder_block_count", 3), {"tensor dec.blk.2"}},
      {t5, count("t5.decoder_block_count", 1), {"dec.blk.1", "not used"}, MOTE_UNSUPPORTED},
      {t5, count("t5.decoder_block_count", 0xffffffff), {"decoder_block_count"}},
      {t5, without("enc.blk.0.attn_rel_b.weight"), {"tensor enc.blk.0.attn_rel_b.weight is missing"}},
      {t5, without("dec.blk.0.attn_rel_b.weight"), {"tensor dec.blk.0.attn_rel_b.weight is missing"}},
      {t5, without("dec.blk.1.cross_attn_k.weight"), {"tensor dec.blk.1.cross_attn_k.weight is missing"}},
      {t5, without("enc.output_norm.weight"), {"tensor enc.output_norm.weight is missing"}},
      {t5, without("enc.blk.0.ffn_gate.weight"), {"ffn_gate.weight is not used"}, MOTE_UNSUPPORTED},
      {t5, without("dec.blk.1.ffn_gate.weight"), {"tensor dec.blk.1.ffn_gate.weight is missing"}},
      {t5,
       [](GgufBuilder& f) {
         f.tensor("dec.blk.0.attn_rel_b.weight").data =
             float_weights(Format::f32, std::vector<float>(32 * 2, static_cast<float>(NAN)));
       },
       {"tensor dec.blk.0.attn_rel_b.weight holds nan", "finite"}},
      {rnn, without("blk.0.rnn_in.bias"), {"tensor blk.0.rnn_in.bias is missing"}},
      {rnn, without("blk.1.rnn_hidden.weight"), {"tensor blk.1.rnn_hidden.weight is missing"}},
      {rnn, without("output.weight"), {"tensor output.weight is missing"}},
      {rnn, count("rnn.feed_forward_length", 47), {"blk.0.rnn_in.weight", "[32, 48", "[32, 47]"}},
      {rnn, count("rnn.feed_forward_length", 0xffffffff), {"rnn.feed_forward_length"}},
      {rnn, labels({"a", "b"}), {"tensor cls.output.weight is missing"}},
      {rnn, moved("blk.1.rnn_hidden.weight", "blk.1.lstm.weight"), {"tensor blk.1.rnn_hidden.weight is missing"}},
      {classifier, labels({}), {"rnn.classifier.output_labels is not a list of 1 to"}},
      {classifier, labels({"a", "b"}), {"cls.output.weight", "[48, 3", "[48, 2]"}},
      {classifier, count("rnn.classifier.output_labels", 2), {"rnn.classifier.output_labels is not a list"}},
      {classifier, count("rnn.pooling_type", 4), {"rnn.pooling_type is 4"}, MOTE_UNSUPPORTED},
      {classifier, count("rnn.attention.head_count", 2), {"rnn.attention.head_count is 2"}, MOTE_UNSUPPORTED},
      {classifier, count("rnn.attention.value_length", 32), {"rnn.attention.value_length is 32", "48 to 48"}},
      {classifier,
       [](GgufBuilder& f) { f.set_string("rnn.attention.pooling", "yes"); },
       {"rnn.attention.pooling", "string"}},
      {classifier,
       [](GgufBuilder& f) { f.set_bool("rnn.attention.pooling", false); },
       {"attn_", "not used"},
       MOTE_UNSUPPORTED},
      {classifier, without("attn_k.weight"), {"tensor attn_k.weight is missing"}},
      {transducer, count("transducer.decoder_block_count", 0), {"decoder_block_count"}},
      {transducer, count("transducer.decoder_block_count", 3), {"tensor dec.blk.2"}},
      {transducer, count("transducer.decoder_block_count", 1), {"dec.blk.1", "not used"}, MOTE_UNSUPPORTED},
      {transducer, count("transducer.block_count", 3), {"tensor enc.blk.2"}},
      {transducer, count("transducer.embedding_length", 33), {"33"}},
      {transducer, without("enc.output_norm.bias"), {"tensor enc.output_norm.bias is missing"}},
      {transducer, without("dec.blk.1.cross_attn_v.weight"), {"tensor dec.blk.1.cross_attn_v.weight is missing"}},
      {transducer,
       moved("enc.blk.0.ffn_up.bias", "enc.blk.0.ffn_gate.bias"),
       {"enc.blk.0.ffn_gate.bias is not used"},
       MOTE_UNSUPPORTED},
  };
  const Engine engine("cpu");
  for (const Wrong& wrong : table) {
    GgufBuilder file = wrong.toy(kSmall);
    wrong.change(file);
    const Outcome said = open(engine, file.bytes());
    CAPTURE(wrong.names[0], said.sentence);
    CHECK(said.status == wrong.status);
    for (const std::string& name : wrong.names) CHECK(contains(said.sentence, name));
  }
}

TEST_CASE("What encoders' files may leave out or have beyond need opens", "[model][encoders]") {
  const Engine engine("cpu");
  GgufBuilder bert = toy_bert(kSmall);
  bert.remove("bert.pooling_type");
  bert.remove("bert.attention.causal");
  CHECK(open(engine, bert.bytes()).sentence == "untouched");
  GgufBuilder t5 = toy_t5(kSmall);
  t5.remove("t5.decoder_block_count");
  t5.add_tensor("dec.blk.0.cross_attn_rel_b.weight", Format::f32, {2, 32},
                float_weights(Format::f32, std::vector<float>(64)));
  Random random(3);   // a later layer's own biases
  t5.add_tensor("enc.blk.1.attn_rel_b.weight", Format::f32, {2, 32}, random_weights(Format::f32, 32, 2, 1, random));
  CHECK(open(engine, t5.bytes()).sentence == "untouched");
  // What a model that turns nothing says of rope is not asked.
  for (const ToyModel toy : {toy_bert, toy_t5, toy_rnn, toy_classifier, toy_transducer}) {
    GgufBuilder file = toy(kSmall);
    const std::string rope = std::string(toy == toy_classifier ? "rnn" : name_of(toy)) + ".rope.";
    file.set_u32(rope + "dimension_count", 7);
    file.set_f32(rope + "freq_base", 0);
    file.set_string(rope + "scaling.type", "longrope");
    CHECK(open(engine, file.bytes()).sentence == "untouched");
  }
  GgufBuilder classifier = toy_classifier(kSmall);
  classifier.set_u32("rnn.attention.value_length", 48);
  CHECK(open(engine, classifier.bytes()).sentence == "untouched");
}

// What transformers' T5Attention._relative_position_bucket computes, in its float32.
uint32_t expected_bucket(int distance, uint32_t n_buckets, bool both_directions) {
  uint32_t bucket = 0, n = n_buckets;
  if (both_directions) {
    n /= 2;
    if (distance > 0) bucket = n;
    distance = std::abs(distance);
  } else {
    distance = distance < 0 ? -distance : 0;
  }
  const int exact = static_cast<int>(n / 2);
  if (distance < exact) return bucket + static_cast<uint32_t>(distance);
  const float part = std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
                     static_cast<float>(std::log(128.0 / exact)) * static_cast<float>(static_cast<int>(n) - exact);
  return bucket + std::min(static_cast<uint32_t>(exact) + static_cast<uint32_t>(part), n - 1);
}

// One layer whose queries and keys are 0 sees every key by its bias alone. With values that name the key's token and a
// bias of `b` in one bucket, the rest 0, the attention's output says which keys fall into that bucket: through one
// encoder layer, hidden states of two models differ exactly where some key does.
TEST_CASE("Distances fall into transformers' buckets, for every number of them", "[model][encoders]") {
  const Engine engine("reference");
  std::string wrong;
  for (const uint32_t n_buckets : {32u, 8u, 64u, 4u, 20u}) {
    ToyOptions toy{.n_layers = 1, .d_model = 4, .n_heads = 1, .d_ff = 4, .tokenizer = ToyTokenizer::none};
    toy.n_buckets = n_buckets;
    constexpr size_t kLength = 300;
    const auto hidden_with = [&](uint32_t marked) {
      GgufBuilder file = toy_t5(toy);
      for (const char* zero : {"enc.blk.0.attn_q.weight", "enc.blk.0.attn_k.weight"})
        file.tensor(zero).data = float_weights(Format::f32, std::vector<float>(16));
      std::vector<float> bias(n_buckets);
      if (marked < n_buckets) bias[marked] = 40;   // outweighs all others
      file.tensor("enc.blk.0.attn_rel_b.weight").data = float_weights(Format::f32, bias);
      const Model model(engine, file);
      const Session session(model, session_options(kLength, kLength));
      encode(session, some_tokens(kLength, 320));
      return encoded(session);
    };
    const std::vector<float> plain = hidden_with(n_buckets);
    for (uint32_t marked = 0; marked < n_buckets; ++marked) {
      const std::vector<float> found = hidden_with(marked);
      for (int query = 0; query < static_cast<int>(kLength); ++query) {
        bool falls = false, differs = false;
        for (int key = 0; key < static_cast<int>(kLength); ++key)
          falls = falls || expected_bucket(key - query, n_buckets, true) == marked;
        for (size_t i = 0; i < 4; ++i) {
          const size_t at = static_cast<size_t>(query) * 4 + i;
          differs = differs || std::abs(found[at] - plain[at]) > 1e-6f;
        }
        if (falls != differs && wrong.size() < 400)
          wrong += std::to_string(n_buckets) + " buckets, " + std::to_string(marked) + ", query " +
                   std::to_string(query) + "\n";
      }
    }
  }
  CHECK(wrong == "");
}

TEST_CASE("Encoders of odd shapes and formats run alike on both backends", "[model][encoders]") {
  std::vector<GgufBuilder> files;
  for (const ToyOptions& toy :
       {ToyOptions{.n_layers = 1, .d_model = 2, .n_heads = 1, .d_ff = 1},
        {.n_layers = 3, .d_model = 66, .n_heads = 3, .d_ff = 97},
        {.d_model = 6, .n_heads = 6, .d_ff = 5},
        {.d_model = 50, .n_heads = 5, .d_ff = 31, .tied = true, .gated = false, .n_buckets = 7}}) {
    ToyOptions small = toy;
    small.tokenizer = ToyTokenizer::none;
    for (const ToyModel model : {toy_bert, toy_t5, toy_rnn, toy_classifier, toy_transducer})
      files.push_back(model(small));
  }
  for (const GgufBuilder& file : files) {
    std::vector<float> found[2];
    const char* backends[] = {"reference", "cpu"};
    for (size_t i = 0; i < 2; ++i) {
      const Engine engine(backends[i], 2);
      const Model model(engine, file);
      mote_session_options options = session_options(40, 25);
      options.kv_type = MOTE_KV_F32;
      const Session session(model, options);
      if (use_encoder(session, &found[i]))
        for (const float logit : logits_after(session, some_tokens(30, 300))) found[i].push_back(logit);
    }
    REQUIRE(found[0].size() == found[1].size());
    double worst = 0, largest = 1;
    for (size_t i = 0; i < found[0].size(); ++i) {
      largest = std::max(largest, std::abs(double{found[0][i]}));
      worst = std::max(worst, std::abs(double{found[0][i]} - double{found[1][i]}));
    }
    CHECK(worst <= 2e-4 * largest);
  }
}

}   // namespace
}   // namespace mote::test::encoder_files
