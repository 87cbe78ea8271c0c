// What a session is behind its handle, and how its parts lie in memory.
#pragma once
#include "core/handles.h"
#include "core/sampler/sampler.h"
#include "core/sampler/stop_matcher.h"
#include "core/tokenizer/text_stream.h"
#include "core/tokenizer/tokenizer.h"

struct mote_session {
  mote::Memory memory;
  mote_model* model = nullptr;
  mote::Sequence* sequence = nullptr;
  mote::Sampler* sampler = nullptr;
  uint64_t seed = 0;
  std::atomic<uint32_t> in_call{0};

  std::span<mote::TokenBias> biases;   // room for as many as the session opened with

  // The text that mote_text_next builds; see api_text.cpp.
  mote::TextStream stream;
  mote::StopMatcher* stops = nullptr;
  std::span<char> piece;        // one token's bytes
  std::span<char> characters;   // whole characters that the stream lets go of for it
  std::span<char> text;         // what the stop strings let go of
  mote_finish finish = MOTE_FINISH_NONE;
};

namespace mote {

// Held while a call on the session lasts; refuses a second one.
class SessionCall {
 public:
  explicit SessionCall(mote_session* session) : session_(session) {
    if (session_ == nullptr)
      status_ = Status::error(Code::invalid_argument, "session is NULL");
    else if (session_->in_call.exchange(1, std::memory_order_acquire) != 0)
      status_ = Status::error(Code::busy, "the session is inside another call"), session_ = nullptr;
  }
  ~SessionCall() {
    if (session_ != nullptr) session_->in_call.store(0, std::memory_order_release);
  }
  SessionCall(const SessionCall&) = delete;
  SessionCall& operator=(const SessionCall&) = delete;
  const Status& status() const { return status_; }

 private:
  mote_session* session_;
  Status status_;
};

// Steps where a token is pending, samples, appends: mote_next without the call guard.
Status next_token(mote_session& session, int32_t* token);

// A new text begins: nothing is held back from the old one.
void begin_text(mote_session& session);

}   // namespace mote
