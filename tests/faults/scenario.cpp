#include "tests/faults/scenario.h"

#include <cstddef>

#include "tests/memory/heap_counter.h"
#include "tests/support/sanitized.h"

namespace mote::test {
namespace {

class Living {
 public:
  explicit Living(const Scenario& scenario) : scenario_(scenario) {}

  Told run() {
    const std::string before = not_given_back();
    open_and_use();
    close();
    if (not_given_back() != before) problem("closed, and there are still " + not_given_back());
    return told_;
  }

 private:
  void problem(const std::string& text) { told_.problems += text + "\n"; }

  static bool is_a_sentence(const std::string& text) {
    if (text.size() < 10) return false;
    for (const char c : text)
      if (c < ' ' || c > '~') return false;
    return !contains(text, "(null)");
  }

  void check_refusal(const char* call, mote_status status, const mote_error& error, const std::string& before) {
    if (told_.n_refused++ == 0) told_.first_sentence = error.message;
    const std::string what = std::string(call) + ": " + mote_status_name(status) + ": " + error.message;
    // What failed is told where there is no memory for those who would take over.
    const bool fits = status == MOTE_IO || status == MOTE_OUT_OF_MEMORY || (fails() && status == MOTE_BACKEND_FAILED);
    if (!fits) problem(what + ": the status does not fit");
    if (error.status != status || !is_a_sentence(error.message)) problem(what + ": is no sentence about it");
    if (status == MOTE_IO && !contains(error.message, scenario_.source_words))
      problem(what + ": does not name the file");
    // A model may have compiled for a session that then gets no memory of its own; it keeps that until it is closed.
    if (not_given_back() != before && !fails()) problem(what + ": left behind " + not_given_back());
  }
  bool fails() const { return scenario_.fail_at != skeleton::FailAt::never; }

  // False when it does not work without faults either. `handle` is what the call opens: a refusal leaves it NULL.
  template <class Call, class Handle>
  bool step(const char* name, Handle** handle, Call call, bool counts_heap = true) {
    const std::string before = not_given_back();
    mote_error error{-1, "untouched"};
    mote_status status = make(call, &error, name, counts_heap);
    if (status == MOTE_OK) return true;
    check_refusal(name, status, error, before);
    if (handle != nullptr && *handle != nullptr) problem(std::string(name) + ": refused with a handle");
    set_faults({});
    error = {-1, "untouched"};
    status = make(call, &error, name, counts_heap);
    if (status != MOTE_OK) problem(std::string(name) + " again: " + error.message);
    return status == MOTE_OK;
  }
  template <class Call>
  bool step(const char* name, Call call) {
    return step(name, static_cast<void**>(nullptr), call);
  }
  template <class Call>
  mote_status make(Call call, mote_error* error, const char* name, bool counts_heap) {
    // A sanitizer's threads take some of the heap when they begin to run, which may be within any later call.
    start_counting(kSanitized ? Counted::this_thread : Counted::all_threads);
    mote_status status;
    {
      const Watch watch;
      status = call(error);
    }
    if (stop_counting() != 0 && counts_heap) problem(std::string(name) + ": called the heap");
    return status;
  }

  void open_and_use() {
    if (!open_engine() || !open_model() || !open_session()) return;
    if (use_text()) generate();
  }

  static mote_quote empty_quote() {
    mote_quote quote{};
    quote.struct_bytes = sizeof quote;
    return quote;
  }

  bool open_engine() {
    mote_engine_options options = engine_options(scenario_.backends, scenario_.threads);
    options.extra_backends = extra_;
    options.n_extra_backends = contains(scenario_.backends, "skeleton") ? 1 : 0;
    mote_quote quote = empty_quote();
    if (!step("mote_engine_quote", [&](mote_error* e) { return mote_engine_quote(&options, &quote, e); })) return false;
    told_.life.quotes.push_back(quote.total_bytes);
    // The C library's threads take some of the heap.
    return step(
        "mote_engine_open", &engine_, [&](mote_error* e) { return mote_engine_open(&options, {}, &engine_, e); },
        false);
  }

  bool open_model() {
    mote_quote quotes[2] = {empty_quote(), empty_quote()};
    uint64_t scratch_bytes = 0;
    const mote_session_options session = session_options(64, 16);
    const mote_source* source = &scenario_.source;
    if (!step("mote_model_scratch_bytes",
              [&](mote_error* e) { return mote_model_scratch_bytes(source, &scratch_bytes, e); }) ||
        !step("mote_model_quote", [&](mote_error* e) {
          return mote_model_quote(engine_, source, nullptr, &session, &quotes[0], &quotes[1], e);
        }))
      return false;
    for (const uint64_t bytes : {scratch_bytes, quotes[0].total_bytes, quotes[1].total_bytes})
      told_.life.quotes.push_back(bytes);
    return step("mote_model_open", &model_,
                [&](mote_error* e) { return mote_model_open(engine_, source, nullptr, {}, &model_, e); });
  }

  bool open_session() {
    const mote_session_options options = session_options(64, 16);
    mote_quote quote = empty_quote();
    if (!step("mote_session_quote", [&](mote_error* e) { return mote_session_quote(model_, &options, &quote, e); }))
      return false;
    told_.life.quotes.push_back(quote.total_bytes);
    return step("mote_session_open", &session_,
                [&](mote_error* e) { return mote_session_open(model_, &options, {}, &session_, e); });
  }

  // A run without a split point, too long for the working memory on the stack.
  bool use_text() {
    std::string said;
    for (int i = 0; i < 3000; ++i) said += static_cast<char>('a' + i % 26);
    const mote_message message = {"user", said.data(), said.size()};
    Tokens ids(said.size() + 64);
    std::string text(said.size() + 64, 0);
    size_t n = 0;
    const auto keep = [&] {
      told_.life.tokens.insert(told_.life.tokens.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n));
    };
    if (!step("mote_tokenize", [&](mote_error* e) {
          return mote_tokenize(model_, said.data(), said.size(), 0, {}, ids.data(), ids.size(), &n, e);
        }))
      return false;
    keep();
    mote_chat_options chatml{};
    chatml.struct_bytes = sizeof chatml;
    chatml.format = "chatml";
    if (!step("mote_chat_tokens", [&](mote_error* e) {
          return mote_chat_tokens(model_, &chatml, &message, 1, {}, ids.data(), ids.size(), &n, e);
        }))
      return false;
    keep();
    size_t n_bytes = 0;
    if (!step("mote_detokenize", [&](mote_error* e) {
          return mote_detokenize(model_, ids.data(), n, text.data(), text.size(), &n_bytes, e);
        }))
      return false;
    told_.life.text.assign(text, 0, n_bytes);
    return true;
  }

  void generate() {
    const Tokens prompt = some_tokens(20, 256);
    size_t done = 0;
    int32_t token = -1;
    const float* logits = nullptr;
    size_t n_vocab = 0;
    mote_text text{};
    text.struct_bytes = sizeof text;
    if (!step("mote_feed", [&](mote_error* e) { return mote_feed(session_, prompt.data(), 20, &done, e); }) ||
        !step("mote_step", [&](mote_error* e) { return mote_step(session_, e); }) ||
        !step("mote_logits", [&](mote_error* e) { return mote_logits(session_, &logits, &n_vocab, e); }))
      return;
    told_.life.logits.assign(logits, logits + n_vocab);
    for (int i = 0; i < 3; ++i) {
      if (!step("mote_next", [&](mote_error* e) { return mote_next(session_, &token, e); })) return;
      told_.life.tokens.push_back(token);
    }
    if (step("mote_text_next", [&](mote_error* e) { return mote_text_next(session_, &text, e); }))
      told_.life.text.append(text.bytes, text.n_bytes);
    snapshot();
  }

  // The session as it is, put back after it was wound to an earlier token.
  void snapshot() {
    uint64_t bytes = 0;
    if (!step("mote_snapshot_bytes", [&](mote_error* e) { return mote_snapshot_bytes(session_, &bytes, e); })) return;
    std::vector<std::byte> kept(bytes);
    if (!step("mote_snapshot",
              [&](mote_error* e) { return mote_snapshot(session_, kept.data(), kept.size(), &bytes, e); }) ||
        !step("mote_rewind", [&](mote_error* e) { return mote_rewind(session_, 5, e); }) ||
        !step("mote_restore", [&](mote_error* e) { return mote_restore(session_, kept.data(), kept.size(), e); }))
      return;
    int32_t token = -1;
    if (step("mote_next", [&](mote_error* e) { return mote_next(session_, &token, e); }))
      told_.life.tokens.push_back(token);
  }

  // Closing has no way to fail: what the system says while it takes things back is its own affair.
  void close() {
    const auto closed = [&](const char* name, auto call) {
      mote_error error{-1, "untouched"};
      if (make(call, &error, name, false) != MOTE_OK) problem(std::string(name) + ": " + error.message);
    };
    closed("mote_session_close", [&](mote_error* e) { return mote_session_close(session_, e); });
    closed("mote_model_close", [&](mote_error* e) { return mote_model_close(model_, e); });
    closed("mote_engine_close", [&](mote_error* e) { return mote_engine_close(engine_, e); });
  }

  const Scenario& scenario_;
  skeleton::Backend skeleton_{scenario_.fail_at};
  void* extra_[1] = {static_cast<Backend*>(&skeleton_)};
  Told told_;
  mote_engine* engine_ = nullptr;
  mote_model* model_ = nullptr;
  mote_session* session_ = nullptr;
};

}   // namespace

Told live(const Scenario& scenario) { return Living(scenario).run(); }

}   // namespace mote::test
