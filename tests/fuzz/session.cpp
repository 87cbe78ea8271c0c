// Input: the number of calls, one byte for each, then how a small model is damaged. Whatever opens is fed 20 tokens and
// makes three steps; then come the calls, in memory of exactly the quotes.
#include <cstdlib>

#include "tests/api/hooked_backend.h"
#include "tests/fuzz/damage.h"

namespace mote::fuzz {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 28;   // a small file that asks for more is not harmless
constexpr int32_t kContext = 24;

class Memory {
 public:
  explicit Memory(uint64_t bytes) : data_(bytes == 0 ? nullptr : std::aligned_alloc(64, bytes)), bytes_(bytes) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { std::free(data_); }
  mote_memory lent() const { return {data_, bytes_}; }

 private:
  void* data_;
  uint64_t bytes_;
};

mote_session_options options_for(uint8_t choice) {
  static const mote_sampler chain[] = {{MOTE_SAMPLER_REPETITION_PENALTY, 8, 1.1, 0},
                                       {MOTE_SAMPLER_TEMPERATURE, 0, 0.8, 0},
                                       {MOTE_SAMPLER_TOP_K, 40, 0, 0},
                                       {MOTE_SAMPLER_TOP_P, 0, 0.9, 0},
                                       {MOTE_SAMPLER_TYPICAL_P, 0, 0.9, 0},
                                       {MOTE_SAMPLER_MIN_P, 0, 0.05, 0}};
  static const char* const stops[] = {"the", "\n\n"};
  mote_session_options options{};
  options.struct_bytes = sizeof options;
  options.context = kContext;
  options.max_batch = 8;
  options.kv_type = choice & 1;
  options.on_full = choice >> 1 & 1;
  options.keep = choice >> 2 & 3;
  options.samplers = chain;
  options.n_samplers = choice >> 4 & 1 ? 6 : 0;
  options.stops = stops;
  options.n_stops = choice >> 5 & 1 ? 2 : 0;
  return options;
}

void call(mote_session* session, uint8_t what, uint32_t n_vocab) {
  mote_error error{};
  int32_t ids[32], token = 0;
  const size_t n = (what & 31u) + 1;
  for (size_t i = 0; i < 32; ++i) ids[i] = static_cast<int32_t>((i * 7 + n) % n_vocab);
  size_t done = 0, reused = 0;
  mote_text text{};
  text.struct_bytes = sizeof text;
  const float* logits = nullptr;
  switch (what >> 5) {
    case 0:
      fine(mote_feed(session, ids, n, &done, &error), error);
      break;
    case 1:
      fine(mote_next(session, &token, &error), error);
      break;
    case 2:
      if (fine(mote_text_next(session, &text, &error), error) && n == 32)
        fine(mote_text_flush(session, &text, &error), error);
      break;
    case 3:
      fine(mote_rewind(session, n - 1, &error), error);
      break;
    case 4:
      fine(mote_prompt(session, ids, n, &reused, &done, &error), error);
      break;
    case 5:
      mote_cancel(session);
      fine(mote_step(session, &error), error);
      break;
    case 6:
      if (fine(mote_step(session, &error), error)) fine(mote_logits(session, &logits, &done, &error), error);
      break;
    default:
      fine(mote_evaluate(
               session, ids, n, [](void*, size_t first, size_t, const float*, size_t) { return int32_t{first > 16}; },
               nullptr, &done, &error),
           error);
  }
}

// Views of what was run last, where there are any.
void look(mote_session* session, uint32_t layer) {
  mote_error error{};
  const float* values = nullptr;
  size_t rows = 0, columns = 0, positions = 0;
  fine(mote_hidden(session, &values, &rows, &columns, &error), error);
  fine(mote_embedding(session, 0, &values, &columns, &error), error);
  for (const int32_t tap : {MOTE_TAP_DECODER_ATTENTION, MOTE_TAP_ENCODER_ATTENTION, MOTE_TAP_CROSS_ATTENTION})
    fine(mote_attention(session, tap, layer, &values, &rows, &columns, &positions, &error), error);
}

void use(mote_session* session, Cursor calls, uint32_t n_vocab) {
  mote_error error{};
  int32_t token = 0;
  int32_t input[6];
  for (size_t i = 0; i < 6; ++i) input[i] = static_cast<int32_t>(i * 11 % n_vocab);
  fine(mote_encode(session, input, 6, &error), error);
  look(session, 0);
  call(session, 19, n_vocab);   // feeds 20
  for (int i = 0; i < 3; ++i) fine(mote_next(session, &token, &error), error);
  for (uint32_t layer = 0; layer < 3; ++layer) look(session, layer);
  while (!calls.empty()) call(session, calls.byte(), n_vocab);
  const int32_t* tokens = nullptr;
  size_t n = 0;
  if (fine(mote_history(session, &tokens, &n, &error), error) && n > kContext + 1) wrong("more history than context");
}

// An engine whose first backend fails where the choice says, and cpu, which takes over.
class FailingEngine {
 public:
  explicit FailingEngine(uint8_t choice) : backend_("cpu") {
    const auto fails = [at = choice >> 2 & 15]() mutable {
      return at-- == 0 ? Status::error(Code::backend_failed, "told to fail") : Status();
    };
    if ((choice & 3) == 0) backend_.hooks.on_compile = fails;
    if ((choice & 3) == 1) backend_.hooks.on_open = fails;
    if ((choice & 3) > 1) backend_.hooks.on_run = fails;
    void* const extra[] = {static_cast<Backend*>(&backend_)};
    mote_engine_options options{};
    options.struct_bytes = sizeof options;
    options.backends = "hooked,cpu";
    options.threads = 1;
    options.extra_backends = extra;
    options.n_extra_backends = 1;
    mote_error error{};
    if (mote_engine_open(&options, {}, &engine_, &error) != MOTE_OK) wrong(error.message);
  }
  FailingEngine(const FailingEngine&) = delete;
  FailingEngine& operator=(const FailingEngine&) = delete;
  ~FailingEngine() { mote_engine_close(engine_, nullptr); }
  mote_engine* get() const { return engine_; }

 private:
  test::HookedBackend backend_;
  mote_engine* engine_ = nullptr;
};

void run(mote_engine* engine, Input calls, Input model_bytes) {
  const ExactBytes bytes(model_bytes);
  const mote_source source = bytes.source();
  const uint8_t choice = calls.empty() ? uint8_t{0} : calls.front();
  const mote_session_options options = options_for(choice);
  mote_model_options model_options{};
  model_options.struct_bytes = sizeof model_options;
  if ((choice >> 3 & 1) != 0)
    model_options.taps = MOTE_TAP_DECODER_ATTENTION | MOTE_TAP_ENCODER_ATTENTION | MOTE_TAP_CROSS_ATTENTION;
  mote_quote model_quote{}, session_quote{};
  model_quote.struct_bytes = session_quote.struct_bytes = sizeof(mote_quote);
  mote_error error{};
  if (!fine(mote_model_quote(engine, &source, &model_options, &options, &model_quote, &session_quote, &error), error))
    return;
  if (model_quote.total_bytes > kMostBytes || session_quote.total_bytes > kMostBytes) wrong("an absurd quote");
  const Memory model_memory(model_quote.total_bytes + model_quote.fallback_bytes),
      session_memory(session_quote.total_bytes);
  mote_model* model = nullptr;
  mote_session* session = nullptr;
  if (!fine(mote_model_open(engine, &source, &model_options, model_memory.lent(), &model, &error), error)) return;
  mote_model_info info{};
  info.struct_bytes = sizeof info;
  if (mote_model_get_info(model, &info, &error) != MOTE_OK) wrong(error.message);
  if (mote_session_open(model, &options, session_memory.lent(), &session, &error) != MOTE_OK) wrong(error.message);
  use(session, Cursor(calls), info.n_vocab);
  mote_session_close(session, nullptr);
  mote_model_close(model, nullptr);
}

}   // namespace
}   // namespace mote::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  mote::fuzz::Cursor input({data, bytes});
  const mote::fuzz::Input calls = input.take(input.byte() % 16);
  const auto model = mote::fuzz::damaged_model(input);
  const mote::fuzz::WorkBound bound(model.size(), 600, 2000000);
  if (!calls.empty() && (calls.front() >> 6 & 1) != 0) {
    const mote::fuzz::FailingEngine failing(calls.back());
    mote::fuzz::run(failing.get(), calls, model);
  } else {
    mote::fuzz::run(mote::fuzz::engine(), calls, model);
  }
  return 0;
}
