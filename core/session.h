// What a session is behind its handle, and how its parts lie in memory.
#pragma once
#include "core/handles.h"
#include "core/sampler/sampler.h"
#include "core/sampler/stop_matcher.h"
#include "core/tokenizer/text_stream.h"
#include "core/tokenizer/tokenizer.h"
#include "platform/memory.h"

struct mote_dev_step_profile;

namespace mote {

// Where mote_dev_profile has a session's runs added up.
struct SessionProfile {
  StepObserver observer;
  std::span<mote_dev_step_profile> steps;   // the caller's, by the plan's steps
  const Plan* plan;
  KvType kv_type;
  uint64_t since;   // the clock when the last step ended, or its part began
};

}   // namespace mote

struct mote_session {
  mote::Memory memory;
  mote_model* model = nullptr;
  mote::Sequence* sequence = nullptr;
  mote::Sampler* sampler = nullptr;
  std::span<float> embedding;   // [d_model] of a model that pools: what mote_embedding hands over
  uint64_t seed = 0;
  mutable std::atomic<uint32_t> in_call{0};
  mote::SessionProfile profile = {};

  // The text that mote_text_next builds; see api_text.cpp.
  mote::TextStream stream;
  mote::StopMatcher* stops = nullptr;
  std::span<char> piece;        // one token's bytes
  std::span<char> characters;   // whole characters that the stream lets go of for it
  std::span<char> text;         // what the stop strings let go of
  mote_finish finish = MOTE_FINISH_NONE;
};

namespace mote {

// Held while a call on the session lasts; refuses a second one. Callbacks of the host see the float mode of the call.
class SessionCall {
 public:
  explicit SessionCall(const mote_session* session) : session_(session) {
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
  const mote_session* session_;
  Status status_;
  FloatMode float_mode_;
};

// Room for the places of a plan's Values while a session is quoted: the model's own, or, while another thread has that,
// the platform's. Nobody waits.
class QuoteRoom {
 public:
  explicit QuoteRoom(mote_model& model) : model_(model), offsets_(model.quote_offsets) {
    if (model.quoting.exchange(1, std::memory_order_acquire) == 0) return;
    pages_ = allocate_pages(offsets_.size_bytes());
    offsets_ = {static_cast<uint64_t*>(pages_), pages_ == nullptr ? 0 : offsets_.size()};
    if (pages_ == nullptr)
      status_ =
          Status::error(Code::busy, "another thread quotes a session of this model, and there is no memory for two");
  }
  ~QuoteRoom() {
    if (pages_ != nullptr)
      free_pages(pages_, model_.quote_offsets.size_bytes());
    else if (status_.ok())
      model_.quoting.store(0, std::memory_order_release);
  }
  QuoteRoom(const QuoteRoom&) = delete;
  QuoteRoom& operator=(const QuoteRoom&) = delete;
  std::span<uint64_t> offsets() const { return offsets_; }
  const Status& status() const { return status_; }

 private:
  mote_model& model_;
  std::span<uint64_t> offsets_;
  void* pages_ = nullptr;
  Status status_;
};

// Steps where a token is pending, samples, appends: mote_next without the call guard.
Status next_token(mote_session& session, int32_t* token);

// A new text begins: nothing is held back from the old one.
void begin_text(mote_session& session);

}   // namespace mote
