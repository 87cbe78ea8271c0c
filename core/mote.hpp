// mote.h for C++20: handles that close themselves, spans and string views. Header-only; adds nothing to the library.
//
//   mote::Engine engine;                                    // all of the machine
//   mote::Error error;
//   mote::Model model;
//   if (!engine.open({}, &error) || !model.open(engine, mote::Source::file("model.gguf"), {}, &error))
//     return fail(error.message());
//
// Every call that can fail takes an Error*, which may be null; those that give a view return an empty one then, one
// that gives a number 0, all others false. Nothing throws. A handle is empty until its open succeeds; closing order is
// model after its sessions, engine after its models.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "core/mote.h"

namespace mote {

class Error {
 public:
  mote_status status() const { return static_cast<mote_status>(raw_.status); }
  const char* message() const { return raw_.message; }
  mote_error* raw() { return &raw_; }

 private:
  mote_error raw_{};
};

namespace detail {
inline mote_error* raw(Error* error) { return error == nullptr ? nullptr : error->raw(); }

// Owns one handle; Close is its mote_..._close.
template <class Handle, mote_status (*Close)(Handle*, mote_error*)>
class Owner {
 public:
  Owner() = default;
  Owner(Owner&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owner& operator=(Owner&& other) noexcept {
    std::swap(handle_, other.handle_);   // what was here is closed by the other one
    return *this;
  }
  ~Owner() { close(); }

  // False, and the handle stays, while something that depends on it is still open.
  bool close(Error* error = nullptr) {
    if (Close(handle_, raw(error)) != MOTE_OK) return false;
    handle_ = nullptr;
    return true;
  }
  explicit operator bool() const { return handle_ != nullptr; }
  Handle* get() const { return handle_; }

 protected:
  Handle* handle_ = nullptr;
};
}   // namespace detail

// Where the GGUF bytes are; views what it is given.
struct Source {
  mote_source raw{};

  static Source file(const char* path, mote_load load = MOTE_LOAD_MAP) {
    Source source;
    source.raw.struct_bytes = sizeof source.raw;
    source.raw.path = path;
    source.raw.load = load;
    return source;
  }
  static Source memory(std::span<const std::byte> bytes) {
    Source source;
    source.raw.struct_bytes = sizeof source.raw;
    source.raw.data = bytes.data();
    source.raw.data_bytes = bytes.size();
    return source;
  }
};

class Engine : public detail::Owner<mote_engine, mote_engine_close> {
 public:
  bool open(mote_engine_options options = {}, Error* error = nullptr, mote_memory memory = {}) {
    options.struct_bytes = sizeof options;
    return close(error) && mote_engine_open(&options, memory, &handle_, detail::raw(error)) == MOTE_OK;
  }
  uint32_t threads() const { return mote_engine_threads(handle_); }
};

class Model : public detail::Owner<mote_model, mote_model_close> {
 public:
  bool open(const Engine& engine, const Source& source, mote_model_options options = {}, Error* error = nullptr,
            mote_memory memory = {}) {
    options.struct_bytes = sizeof options;
    return close(error) &&
           mote_model_open(engine.get(), &source.raw, &options, memory, &handle_, detail::raw(error)) == MOTE_OK;
  }
  // *count becomes the number of ids, also when `tokens` is too short for them.
  bool tokenize(std::string_view text, uint32_t flags, std::span<int32_t> tokens, size_t* count,
                Error* error = nullptr) const {
    return mote_tokenize(handle_, text.data(), text.size(), flags, {}, tokens.data(), tokens.size(), count,
                         detail::raw(error)) == MOTE_OK;
  }
  bool detokenize(std::span<const int32_t> tokens, std::span<char> text, size_t* count, Error* error = nullptr) const {
    return mote_detokenize(handle_, tokens.data(), tokens.size(), text.data(), text.size(), count,
                           detail::raw(error)) == MOTE_OK;
  }
  bool chat_tokens(std::span<const mote_message> messages, std::span<int32_t> tokens, size_t* count,
                   Error* error = nullptr, mote_chat_options options = {}) const {
    options.struct_bytes = sizeof options;
    return mote_chat_tokens(handle_, &options, messages.data(), messages.size(), {}, tokens.data(), tokens.size(),
                            count, detail::raw(error)) == MOTE_OK;
  }
  bool is_end_token(int32_t token) const { return mote_is_end_token(handle_, token) != 0; }
};

class Session : public detail::Owner<mote_session, mote_session_close> {
 public:
  bool open(const Model& model, mote_session_options options = {}, Error* error = nullptr, mote_memory memory = {}) {
    options.struct_bytes = sizeof options;
    return close(error) && mote_session_open(model.get(), &options, memory, &handle_, detail::raw(error)) == MOTE_OK;
  }
  bool feed(std::span<const int32_t> tokens, Error* error = nullptr, size_t* done = nullptr) {
    return mote_feed(handle_, tokens.data(), tokens.size(), done, detail::raw(error)) == MOTE_OK;
  }
  bool prompt(std::span<const int32_t> tokens, Error* error = nullptr, size_t* reused = nullptr,
              size_t* done = nullptr) {
    return mote_prompt(handle_, tokens.data(), tokens.size(), reused, done, detail::raw(error)) == MOTE_OK;
  }
  // An encoder's input; a decoder's calls follow it.
  bool encode(std::span<const int32_t> tokens, Error* error = nullptr) {
    return mote_encode(handle_, tokens.data(), tokens.size(), detail::raw(error)) == MOTE_OK;
  }
  // [n_rows, *d_model], and [d_model] divided by its length; empty where there is none.
  std::span<const float> hidden(size_t* d_model, Error* error = nullptr) const {
    const float* values = nullptr;
    size_t n_rows = 0;
    return mote_hidden(handle_, &values, &n_rows, d_model, detail::raw(error)) == MOTE_OK
               ? std::span(values, n_rows * *d_model)
               : std::span<const float>();
  }
  std::span<const float> embedding(uint32_t flags = 0, Error* error = nullptr) const {
    const float* values = nullptr;
    size_t d_model = 0;
    return mote_embedding(handle_, flags, &values, &d_model, detail::raw(error)) == MOTE_OK ? std::span(values, d_model)
                                                                                            : std::span<const float>();
  }
  // What each row of the last batch looked at, [n_rows, n_heads, n_positions]; empty where there is none.
  struct Attention {
    std::span<const float> weights;
    size_t n_rows = 0, n_heads = 0, n_positions = 0;
  };
  Attention attention(mote_tap tap, uint32_t layer, Error* error = nullptr) const {
    Attention found;
    const float* values = nullptr;
    if (mote_attention(handle_, tap, layer, &values, &found.n_rows, &found.n_heads, &found.n_positions,
                       detail::raw(error)) == MOTE_OK)
      found.weights = std::span(values, found.n_rows * found.n_heads * found.n_positions);
    return found;
  }
  bool step(Error* error = nullptr) { return mote_step(handle_, detail::raw(error)) == MOTE_OK; }
  // Empty before the first step.
  std::span<const float> logits(Error* error = nullptr) const {
    const float* values = nullptr;
    size_t count = 0;
    return mote_logits(handle_, &values, &count, detail::raw(error)) == MOTE_OK ? std::span(values, count)
                                                                                : std::span<const float>();
  }
  bool next(int32_t* token, Error* error = nullptr) { return mote_next(handle_, token, detail::raw(error)) == MOTE_OK; }
  bool text_next(mote_text* text, Error* error = nullptr) {
    text->struct_bytes = sizeof *text;
    return mote_text_next(handle_, text, detail::raw(error)) == MOTE_OK;
  }
  bool text_flush(mote_text* text, Error* error = nullptr) {
    text->struct_bytes = sizeof *text;
    return mote_text_flush(handle_, text, detail::raw(error)) == MOTE_OK;
  }
  bool rewind(size_t n_tokens, Error* error = nullptr) {
    return mote_rewind(handle_, n_tokens, detail::raw(error)) == MOTE_OK;
  }
  std::span<const int32_t> history(Error* error = nullptr) const {
    const int32_t* tokens = nullptr;
    size_t count = 0;
    return mote_history(handle_, &tokens, &count, detail::raw(error)) == MOTE_OK ? std::span(tokens, count)
                                                                                 : std::span<const int32_t>();
  }
  void cancel() { mote_cancel(handle_); }
  // 0: there is no session, or it is inside another call.
  uint64_t snapshot_bytes(Error* error = nullptr) const {
    uint64_t bytes = 0;
    return mote_snapshot_bytes(handle_, &bytes, detail::raw(error)) == MOTE_OK ? bytes : 0;
  }
  // *bytes (may be null) becomes the size of the snapshot, also when `data` is too small for it.
  bool snapshot(std::span<std::byte> data, uint64_t* bytes = nullptr, Error* error = nullptr) const {
    uint64_t size = 0;
    const bool done = mote_snapshot(handle_, data.data(), data.size(), &size, detail::raw(error)) == MOTE_OK;
    if (bytes != nullptr) *bytes = size;
    return done;
  }
  bool restore(std::span<const std::byte> data, Error* error = nullptr) {
    return mote_restore(handle_, data.data(), data.size(), detail::raw(error)) == MOTE_OK;
  }
};

}   // namespace mote
