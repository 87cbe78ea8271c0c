// The quotes are exact: what they say is what opening takes, to the byte.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <cstring>

#include "tests/memory/shapes.h"
#include "tests/support/guarded_memory.h"

namespace mote::test {
namespace {

// Memory that ends where an unreadable page begins.
class Room {
 public:
  explicit Room(uint64_t bytes, uint8_t fill = 0xA5) : memory_(bytes, 64, Guard::pages, fill) {}
  mote_memory all() const { return {memory_.data(), memory_.bytes()}; }
  mote_memory less(uint64_t bytes) const { return {memory_.data(), memory_.bytes() - bytes}; }

 private:
  GuardedMemory memory_;
};

std::vector<GgufBuilder> toy_files() {
  std::vector<ToyOptions> shapes(1);
  shapes.push_back({.n_layers = 1, .d_model = 96, .n_heads = 3, .n_kv_heads = 1, .d_ff = 33, .tied = true});
  shapes.push_back(
      {.n_heads = 2, .head_dim = 48, .matrices = Format::q8_0, .embedding = Format::q8_0, .output = Format::q4_0});
  shapes.push_back({.rope_scaling = "yarn", .original_context = 128, .tokenizer = ToyTokenizer::sentencepiece});
  shapes.push_back({.n_layers = 5, .rope_factors = std::vector<float>(8, 2.0f), .tokenizer = ToyTokenizer::none});
  std::vector<GgufBuilder> files;
  for (const ToyOptions& shape : shapes) files.push_back(toy_llama(shape));
  files.push_back(toy_phi3({.n_layers = 3}));
  files.push_back(toy_bert());
  files.push_back(toy_bert({.n_layers = 1, .n_heads = 1, .matrices = Format::q8_0, .pooling_type = 0}));
  files.push_back(toy_t5());
  for (const ToyModel toy : {toy_rnn, toy_classifier, toy_transducer}) files.push_back(toy({}));
  files.push_back(toy_classifier({.n_layers = 3, .matrices = Format::q8_0, .gated = false, .pooling_type = 2}));
  files.push_back(toy_t5({.n_layers = 3, .matrices = Format::q4_0, .tied = true, .gated = false, .n_buckets = 9}));
  return files;
}

// total_bytes below the sum, no multiple of 64, or an opening that does not take what it must: what is wrong, or empty.
std::string quote_fault(const mote_quote& quote) {
  if (quote.total_bytes == 0) return "it is 0";
  if (quote.total_bytes % 64 != 0) return "it is no multiple of 64";
  if (sum_of_kinds(quote) != quote.total_bytes)
    return "the kinds add up to " + std::to_string(sum_of_kinds(quote)) + ", the total is " +
           std::to_string(quote.total_bytes);
  return {};
}

// Opens in exactly the quote, and is refused with one byte less and with nothing.
template <class Open>
void check_exact(const mote_quote& quote, Open open) {
  REQUIRE(quote_fault(quote) == "");
  Room room(quote.total_bytes);
  const Outcome exact = outcome([&](mote_error* error) { return open(room.all(), error); });
  CHECK(exact.sentence == "untouched");
  REQUIRE(exact.status == MOTE_OK);
  for (const uint64_t less :
       {uint64_t{1}, uint64_t{64}, quote.total_bytes / 2, quote.total_bytes - 1, quote.total_bytes}) {
    const Outcome refused = outcome([&](mote_error* error) { return open(room.less(less), error); });
    CHECK(refused.status == MOTE_OUT_OF_MEMORY);
    CHECK(contains(refused.sentence, std::to_string(quote.total_bytes - less) + " were handed over"));
  }
}

TEST_CASE("An engine opens in exactly its quote and says what is missing with a byte less", "[memory][quote]") {
  const char* backends = GENERATE("cpu", "reference", "cpu,reference", "auto");
  const uint32_t threads = GENERATE(1u, 2u, 5u);
  CAPTURE(backends, threads);
  const mote_engine_options options = engine_options(backends, threads);
  check_exact(quote_engine(options), [&](mote_memory memory, mote_error* error) {
    mote_engine* engine = nullptr;
    const mote_status status = mote_engine_open(&options, memory, &engine, error);
    CHECK((engine != nullptr) == (status == MOTE_OK));
    mote_engine_close(engine, nullptr);
    return status;
  });
}

TEST_CASE("A model opens in exactly its quote and says what is missing with a byte less", "[memory][quote]") {
  const char* backend = GENERATE(from_range(exact_backends()));
  const size_t shape = GENERATE(range(size_t{0}, toy_files().size()));
  CAPTURE(backend, shape);
  const Engine engine(with_cpu(backend).c_str());
  const Bytes bytes = toy_files()[shape].bytes();
  const mote_source source = source_of(bytes);
  check_exact(quote_model(engine, bytes, session_options()).model, [&](mote_memory memory, mote_error* error) {
    mote_model* model = nullptr;
    const mote_status status = mote_model_open(engine, &source, nullptr, memory, &model, error);
    CHECK((model != nullptr) == (status == MOTE_OK));
    mote_model_close(model, nullptr);
    return status;
  });
}

TEST_CASE("A vocabulary-only model opens in exactly its quote", "[memory][quote]") {
  const Engine engine("cpu");
  GgufBuilder file;
  file.set_string("general.architecture", "llama");
  const ToyTokenizer tokenizer = GENERATE(ToyTokenizer::none, ToyTokenizer::byte_bpe, ToyTokenizer::sentencepiece,
                                          ToyTokenizer::unigram, ToyTokenizer::word_pieces);
  if (tokenizer != ToyTokenizer::none) add_toy_tokenizer(file, {.tokenizer = tokenizer});
  if (GENERATE(false, true)) file.set_string("tokenizer.ggml.model", "rwkv");   // is then without one
  const Bytes bytes = file.bytes();
  const mote_source source = source_of(bytes);
  mote_model_options options{};
  options.struct_bytes = sizeof options;
  options.vocabulary_only = 1;
  mote_quote quote{};
  quote.struct_bytes = sizeof quote;
  const Outcome quoted = outcome(
      [&](mote_error* error) { return mote_model_quote(engine, &source, &options, nullptr, &quote, nullptr, error); });
  CHECK(quoted.sentence == "untouched");
  REQUIRE(quoted.status == MOTE_OK);
  check_exact(quote, [&](mote_memory memory, mote_error* error) {
    mote_model* model = nullptr;
    const mote_status status = mote_model_open(engine, &source, &options, memory, &model, error);
    mote_model_close(model, nullptr);
    return status;
  });
}

TEST_CASE("A session opens in exactly its quote and says what is missing with a byte less", "[memory][quote]") {
  const char* backend = GENERATE(from_range(exact_backends()));
  const uint32_t threads = GENERATE(1u, 3u);
  const Engine engine(with_cpu(backend).c_str(), threads);
  const ToyModel toy = GENERATE(from_range(kAllToys));
  const Model model(engine, toy({}));
  for (const Shape& shape : session_shapes()) {
    if (only_encodes(toy) && shape.options.n_logit_bias != 0) continue;   // there are no logits
    CAPTURE(backend, threads, name_of(toy), shape.name);
    check_exact(quote_session(model, shape.options), [&](mote_memory memory, mote_error* error) {
      mote_session* session = nullptr;
      const mote_status status = mote_session_open(model, &shape.options, memory, &session, error);
      CHECK((session != nullptr) == (status == MOTE_OK));
      mote_session_close(session, nullptr);
      return status;
    });
  }
}

TEST_CASE("What is tapped is in the quote, to the byte, and nothing else grows", "[memory][quote][taps]") {
  const char* backend = GENERATE("cpu", "reference", "cpu,reference");
  const ToyModel toy = GENERATE(as<ToyModel>{}, toy_llama, toy_phi3, toy_t5, toy_bert);
  const Engine engine(backend, 2);
  const Bytes bytes = toy({}).bytes();
  mote_model_options tapped{};
  tapped.struct_bytes = sizeof tapped;
  tapped.taps = MOTE_TAP_DECODER_ATTENTION | MOTE_TAP_ENCODER_ATTENTION | MOTE_TAP_CROSS_ATTENTION;
  const Model model(engine, bytes), with(engine, bytes, {}, &tapped);
  const mote_session_options options = session_options(50, 9);
  const mote_quote quote = quote_session(with, options), plain = quote_session(model, options);
  CAPTURE(backend, name_of(toy));
  // Two layers of four heads: 9 rows to 50 positions, or to an input of 9. In lines of 64 bytes.
  const uint64_t past = (9 * 4 * 50 * 4 + 63) / 64 * 64, input = (9 * 4 * 9 * 4 + 63) / 64 * 64;
  const uint64_t n_past = toy == toy_bert ? 0 : 2;
  const uint64_t n_input = toy == toy_t5 ? 4 : toy == toy_bert ? 2 : 0;
  CHECK(quote.activation_bytes - plain.activation_bytes == n_past * past + n_input * input);
  CHECK(quote.state_bytes == plain.state_bytes);
  CHECK(quote.scratch_bytes == plain.scratch_bytes);
  CHECK(quote_model(engine, bytes, options, &tapped).session.total_bytes == quote.total_bytes);
  check_exact(quote, [&](mote_memory memory, mote_error* error) {
    mote_session* session = nullptr;
    const mote_status status = mote_session_open(with, &options, memory, &session, error);
    mote_session_close(session, nullptr);
    return status;
  });
  const mote_source source = source_of(bytes);
  check_exact(quote_model(engine, bytes, options, &tapped).model, [&](mote_memory memory, mote_error* error) {
    mote_model* opened = nullptr;
    const mote_status status = mote_model_open(engine, &source, &tapped, memory, &opened, error);
    mote_model_close(opened, nullptr);
    return status;
  });
}

TEST_CASE("Every size below the quote is refused without a byte written behind it", "[memory][quote]") {
  const Engine engine("cpu");
  const Bytes bytes = toy_llama({.n_layers = 1}).bytes();
  const mote_source source = source_of(bytes);
  const mote_session_options options = session_options(16, 4);
  const ModelQuotes quotes = quote_model(engine, bytes, options);
  uint32_t n_wrong = 0;
  // Each size has guard pages of its own right behind it.
  for (uint64_t size = 64; size < quotes.model.total_bytes; size += 64) {
    const Room room(size);
    mote_model* model = nullptr;
    if (mote_model_open(engine, &source, nullptr, room.all(), &model, nullptr) != MOTE_OUT_OF_MEMORY) ++n_wrong;
  }
  CHECK(n_wrong == 0);
  const Model model(engine, bytes);
  for (uint64_t size = 64; size < quotes.session.total_bytes; size += 64) {
    const Room room(size);
    mote_session* session = nullptr;
    if (mote_session_open(model, &options, room.all(), &session, nullptr) != MOTE_OUT_OF_MEMORY) ++n_wrong;
  }
  CHECK(n_wrong == 0);
}

// With a last piece of that many bytes.
GgufBuilder with_long_piece(GgufBuilder file, size_t n_bytes) {
  for (GgufBuilder::Metadata& entry : file.entries) {
    if (entry.key != "tokenizer.ggml.tokens") continue;
    uint64_t count = 0, length = 0;
    std::memcpy(&count, entry.value.data() + 4, sizeof count);
    size_t at = 12;
    for (uint64_t i = 0; i + 1 < count; ++i, at += 8 + static_cast<size_t>(length))
      std::memcpy(&length, entry.value.data() + at, sizeof length);
    entry.value.resize(at);
    append_text(entry.value, std::string(n_bytes, 'x'));
  }
  return file;
}

TEST_CASE("A session's quote is the same before and after the model is open", "[memory][quote]") {
  const char* backend = GENERATE(from_range(exact_backends()));
  const uint32_t threads = GENERATE(1u, 3u);
  const Engine engine(with_cpu(backend).c_str(), threads);
  std::vector<GgufBuilder> files = toy_files();
  files.push_back(with_long_piece(toy_llama({.tokenizer = ToyTokenizer::sentencepiece}), 64));   // fills its line
  for (const GgufBuilder& file : files) {
    const Bytes bytes = file.bytes();
    const Model model(engine, bytes);
    mote_model_info info{};
    info.struct_bytes = sizeof info;
    REQUIRE(mote_model_get_info(model, &info, nullptr) == MOTE_OK);
    for (const Shape& shape : session_shapes()) {
      if (info.decodes == 0 && shape.options.n_logit_bias != 0) continue;
      const mote_quote before = quote_model(engine, bytes, shape.options).session;
      const mote_quote after = quote_session(model, shape.options);
      CAPTURE(backend, threads, shape.name, before.total_bytes, after.total_bytes);
      CHECK(std::memcmp(&before, &after, sizeof before) == 0);
    }
  }
}

TEST_CASE("Quotes work in the memory that the caller hands over", "[memory][quote]") {
  const Engine engine("cpu");
  const Bytes bytes = toy_llama().bytes();
  const mote_source source = source_of(bytes);
  uint64_t scratch_bytes = 0;
  REQUIRE(mote_model_scratch_bytes(&source, &scratch_bytes, nullptr) == MOTE_OK);
  REQUIRE(scratch_bytes > 0);
  const Room scratch(scratch_bytes);
  mote_model_options options{};
  options.struct_bytes = sizeof options;
  options.scratch = scratch.all();
  const ModelQuotes quotes = quote_model(engine, bytes, session_options(), &options);
  CHECK(quotes.model.total_bytes == quote_model(engine, bytes, session_options()).model.total_bytes);
  options.scratch.bytes -= 1;
  mote_quote quote{};
  quote.struct_bytes = sizeof quote;
  const Outcome refused = outcome(
      [&](mote_error* error) { return mote_model_quote(engine, &source, &options, nullptr, &quote, nullptr, error); });
  CHECK(refused.status == MOTE_OUT_OF_MEMORY);
  CHECK(contains(refused.sentence, std::to_string(scratch_bytes)));
}

TEST_CASE("Memory at an odd address, and a size without memory, are refused", "[memory][quote]") {
  const mote_engine_options options = engine_options("cpu");
  const mote_quote quote = quote_engine(options);
  const Room room(quote.total_bytes + 64);
  mote_engine* engine = nullptr;
  for (const size_t shift : {size_t{1}, size_t{8}, size_t{32}, size_t{63}}) {
    const mote_memory odd = {static_cast<std::byte*>(room.all().data) + shift, quote.total_bytes};
    const Outcome refused = outcome([&](mote_error* error) { return mote_engine_open(&options, odd, &engine, error); });
    CHECK(refused.status == MOTE_INVALID_ARGUMENT);
    CHECK(contains(refused.sentence, "aligned to 64 bytes"));
  }
  const Outcome nowhere =
      outcome([&](mote_error* error) { return mote_engine_open(&options, {nullptr, 4096}, &engine, error); });
  CHECK(nowhere.status == MOTE_INVALID_ARGUMENT);
  CHECK(contains(nowhere.sentence, "4096 bytes at NULL"));
}

TEST_CASE("The quotes grow with what they are for", "[memory][quote]") {
  const Engine engine("cpu");
  const Model model(engine, toy_llama());
  const mote_quote plain = quote_session(model, session_options(128, 16));
  CHECK(quote_session(model, session_options(256, 16)).state_bytes == 2 * plain.state_bytes);
  CHECK(quote_session(model, session_options(128, 32)).activation_bytes > plain.activation_bytes);
  mote_session_options wide = session_options(128, 16);
  wide.kv_type = MOTE_KV_F32;
  CHECK(quote_session(model, wide).state_bytes == 2 * plain.state_bytes);
  // 2 layers x 128 positions x 2 heads x (16 + 16) values of 2 bytes.
  CHECK(plain.state_bytes >= 2 * 128 * 2 * 32 * 2);
  CHECK(plain.state_bytes <= 2 * 128 * 2 * 32 * 2 + 4096);
  // A window of 8 keeps round_up(8 - 1 + 16, 64) positions, however long the context.
  const Model windowed(engine, toy_gemma3());
  const uint64_t half = plain.state_bytes / 2, ring = half / 2;
  CHECK(quote_session(windowed, session_options(128, 16)).state_bytes == half + ring);
  CHECK(quote_session(windowed, session_options(256, 16)).state_bytes == 2 * half + ring);
  CHECK(quote_session(windowed, session_options(256, 58)).state_bytes == 2 * half + 2 * ring);
}

TEST_CASE("The largest session that may be asked for has a quote that does not wrap", "[memory][quote]") {
  const char* backend = GENERATE(from_range(host_backends()));
  const Engine engine(backend, 4);
  const Model model(engine, toy_llama());
  mote_session_options options = session_options(1u << 24, 1u << 24);
  options.max_output_rows = 1u << 24;
  options.kv_type = MOTE_KV_F32;
  const mote_quote quote = quote_session(model, options);
  CHECK(quote_fault(quote) == "");
  CHECK(quote.state_bytes >= (uint64_t{1} << 24) * 2 * 64 * 4);
  CHECK(quote.activation_bytes >= (uint64_t{1} << 24) * 320 * 4);
  CHECK(quote.history_bytes >= (uint64_t{1} << 24) * 4);
}

}   // namespace
}   // namespace mote::test
