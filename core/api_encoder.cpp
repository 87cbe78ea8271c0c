// Encoder calls of mote.h: an input becomes hidden states and one vector.
#include "core/base/math.h"
#include "core/session.h"

namespace mote {
namespace {

Status need_results(std::span<const float> results) {
  if (!results.empty()) return {};
  return Status::error(Code::wrong_state, "nothing is encoded yet; mote_encode takes an input");
}

// The sum of squares is one double, in rising order; each value is divided by its root and rounded once.
void normalize(std::span<const float> from, std::span<float> to) {
  double squares = 0;
  for (const float value : from) squares += static_cast<double>(value) * static_cast<double>(value);
  const double length = squares == 0 ? 1 : sqrt_f64(squares);
  for (size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(static_cast<double>(from[i]) / length);
}

Status embed(mote_session& session, uint32_t flags, std::span<const float>* embedding) {
  const Sequence& sequence = *session.sequence;
  if ((flags & ~uint32_t{MOTE_EMBEDDING_RAW}) != 0)
    return Status::error(Code::invalid_argument, "flags are {}; the highest is {}", flags,
                         static_cast<int>(MOTE_EMBEDDING_RAW));
  if (session.embedding.empty())
    return Status::error(Code::unsupported,
                         "this model makes no embeddings: it has no encoder, or was opened without "
                         "pooling");
  const std::span<const float> pooled = sequence.pooled();
  MOTE_RETURN_IF_ERROR(need_results(pooled));
  for (size_t i = 0; i < pooled.size(); ++i)
    if (!(pooled[i] - pooled[i] == 0))
      return Status::error(Code::not_finite, "value {} of the embedding is {}", i, static_cast<double>(pooled[i]));
  *embedding = pooled;
  if ((flags & MOTE_EMBEDDING_RAW) != 0) return {};
  normalize(pooled, session.embedding);
  *embedding = session.embedding;
  return {};
}

}   // namespace
}   // namespace mote

extern "C" {

mote_status mote_encode(mote_session* session, const int32_t* tokens, size_t n, mote_error* error) {
  using namespace mote;
  const SessionCall call(session);
  Status status = call.status();
  if (status.ok() && tokens == nullptr && n != 0)
    status = Status::error(Code::invalid_argument, "tokens is NULL with n {}", n);
  if (status.ok()) status = session->sequence->check_encode({tokens, n});   // a refused call changes nothing
  if (status.ok()) {
    begin_text(*session);
    status = session->sequence->encode({tokens, n});
  }
  return report(status, error);
}

mote_status mote_hidden(mote_session* session, const float** hidden, size_t* n_rows, size_t* d_model,
                        mote_error* error) {
  using namespace mote;
  const SessionCall call(session);
  if (!call.status().ok()) return report(call.status(), error);
  if (hidden == nullptr || n_rows == nullptr || d_model == nullptr)
    return report(Status::error(Code::invalid_argument, "hidden, n_rows or d_model is NULL"), error);
  if (!session->model->plan.encodes())
    return report(Status::error(Code::unsupported, "this model has no hidden states to show: it has no encoder"),
                  error);
  const std::span<const float> found = session->sequence->hidden();
  if (const Status status = need_results(found); !status.ok()) return report(status, error);
  *hidden = found.data();
  *d_model = session->sequence->d_hidden();
  *n_rows = found.size() / *d_model;
  return MOTE_OK;
}

mote_status mote_embedding(mote_session* session, uint32_t flags, const float** embedding, size_t* n,
                           mote_error* error) {
  using namespace mote;
  const SessionCall call(session);
  if (!call.status().ok()) return report(call.status(), error);
  if (embedding == nullptr || n == nullptr)
    return report(Status::error(Code::invalid_argument, "embedding or n is NULL"), error);
  std::span<const float> found;
  const Status status = embed(*session, flags, &found);
  if (!status.ok()) return report(status, error);
  *embedding = found.data();
  *n = found.size();
  return MOTE_OK;
}

}   // extern "C"
