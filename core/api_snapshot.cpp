// Snapshot calls of mote.h: the session's own part around that of its sequence (core/pipeline/snapshot.h).
//
//   at   0  8   magic
//        8  u32 version of the layout
//       12  u32 0
//       16  u64 bytes of the whole
//       24      the model: u64 bytes of its file, digests of metadata, tensor table and samples (core/gguf/identity.h)
//      128  u64 seed
//      136  u32 mote_finish of the text under way
//      140  u32 bytes of its unfinished character
//      144  u32 bytes of it that may become a stop string
//      148  u32 0
//      152      the unfinished character; what may become a stop string; the sequence
//   last    32  SHA-256 of all before it: against damage. Whoever makes one that fits his own bytes meets the checks of
//               every field; a snapshot of a foreign hand can spoil the answer, not the process.
#include <cstring>

#include "core/base/bytes.h"
#include "core/base/slice.h"
#include "core/session.h"

namespace mote {
namespace {

constexpr char kMagic[] = "MOTESNAP";
constexpr uint32_t kLayoutVersion = 2;
constexpr size_t kMagicBytes = 8, kHeadBytes = 152, kDigestBytes = 32;
constexpr size_t kLeastBytes = kHeadBytes + kDigestBytes;
constexpr size_t kHashedAtOnce = size_t{1} << 16;   // between two looks at the cancel flag

// The head's fields, as they stand in the bytes.
struct Head {
  uint64_t total_bytes = 0;
  gguf::Identity model;
  uint64_t seed = 0;
  uint32_t finish = 0, character_bytes = 0, held_bytes = 0;

  void write(uint8_t* to) const {
    std::memset(to, 0, kHeadBytes);
    std::memcpy(to, kMagic, kMagicBytes);
    store_le(to + 8, kLayoutVersion);
    store_le(to + 16, total_bytes);
    store_le(to + 24, model.file_bytes);
    std::memcpy(to + 32, model.metadata.data(), kDigestBytes);
    std::memcpy(to + 64, model.tensors.data(), kDigestBytes);
    std::memcpy(to + 96, model.samples.data(), kDigestBytes);
    store_le(to + 128, seed);
    store_le(to + 136, finish);
    store_le(to + 140, character_bytes);
    store_le(to + 144, held_bytes);
  }
  void read(const uint8_t* from) {
    total_bytes = load_le<uint64_t>(from + 16);
    model.file_bytes = load_le<uint64_t>(from + 24);
    std::memcpy(model.metadata.data(), from + 32, kDigestBytes);
    std::memcpy(model.tensors.data(), from + 64, kDigestBytes);
    std::memcpy(model.samples.data(), from + 96, kDigestBytes);
    seed = load_le<uint64_t>(from + 128);
    finish = load_le<uint32_t>(from + 136);
    character_bytes = load_le<uint32_t>(from + 140);
    held_bytes = load_le<uint32_t>(from + 144);
  }
};

// Worked out by whoever needs it first, and never waited for: who comes meanwhile works it out for himself.
gguf::Identity identity_of(mote_model& model) {
  enum : uint32_t { kNone, kBeingWritten, kThere };
  if (model.identity_state.load(std::memory_order_acquire) == kThere) return model.identity;
  const gguf::Identity identity = gguf::identify(model.file, model.index.tensors());
  uint32_t none = kNone;
  if (model.identity_state.compare_exchange_strong(none, kBeingWritten, std::memory_order_relaxed)) {
    model.identity = identity;
    model.identity_state.store(kThere, std::memory_order_release);
  }
  return identity;
}

uint64_t snapshot_bytes(const mote_session& session) {
  return kLeastBytes + session.stream.held().size() + session.stops->held().size() + session.sequence->snapshot_bytes();
}

Status write_snapshot(mote_session& session, std::span<uint8_t> to) {
  const std::string_view character = session.stream.held(), held = session.stops->held();
  Head head;
  head.total_bytes = to.size();
  head.model = identity_of(*session.model);
  head.seed = session.seed;
  head.finish = static_cast<uint32_t>(session.finish);
  head.character_bytes = static_cast<uint32_t>(character.size());
  head.held_bytes = static_cast<uint32_t>(held.size());
  head.write(to.data());
  size_t at = kHeadBytes;
  for (const std::string_view text : {character, held}) {
    if (!text.empty()) std::memcpy(to.data() + at, text.data(), text.size());
    at += text.size();
  }
  MOTE_RETURN_IF_ERROR(session.sequence->write_snapshot(to.subspan(at, to.size() - at - kDigestBytes)));
  Sha256 sha;
  sha.add(to.data(), to.size() - kDigestBytes);
  const Sha256Digest digest = sha.finish();
  std::memcpy(to.data() + to.size() - kDigestBytes, digest.data(), kDigestBytes);
  return {};
}

Status snapshot(mote_session& session, void* data, uint64_t capacity_bytes, uint64_t* bytes) {
  if (bytes == nullptr) return Status::error(Code::invalid_argument, "snapshot_bytes is NULL");
  *bytes = snapshot_bytes(session);
  if (data == nullptr && capacity_bytes != 0)
    return Status::error(Code::invalid_argument, "data is NULL with capacity_bytes {}", capacity_bytes);
  if (*bytes > capacity_bytes)
    return Status::error(Code::buffer_too_small, "the snapshot takes {} bytes, there is room for {}", *bytes,
                         capacity_bytes);
  return write_snapshot(session, {static_cast<uint8_t*>(data), static_cast<size_t>(*bytes)});
}

// ------------------------------------------------------------------------------------------------ restore

// The bytes are those that a snapshot was written as. Their meaning is not looked at yet.
Status check_whole(mote_session& session, std::span<const uint8_t> from) {
  if (from.size() < kLeastBytes || std::memcmp(from.data(), kMagic, kMagicBytes) != 0)
    return Status::error(Code::invalid_argument, "the {} bytes are no snapshot", from.size());
  if (const auto version = load_le<uint32_t>(from.data() + 8); version != kLayoutVersion)
    return Status::error(Code::unsupported, "the snapshot's layout has version {}, this build reads version {}",
                         version, kLayoutVersion);
  if (const auto total_bytes = load_le<uint64_t>(from.data() + 16); total_bytes != from.size())
    return Status::error(Code::invalid_argument, "the snapshot has {} bytes, {} were handed over", total_bytes,
                         from.size());
  Sha256 sha;
  const size_t end = from.size() - kDigestBytes;
  for (size_t at = 0; at < end; at += kHashedAtOnce) {
    if (session.sequence->take_cancel())
      return Status::error(Code::cancelled, "cancelled while the snapshot was checked; nothing was changed");
    sha.add(from.data() + at, end - at < kHashedAtOnce ? end - at : kHashedAtOnce);
  }
  const Sha256Digest digest = sha.finish();
  if (std::memcmp(digest.data(), from.data() + end, kDigestBytes) != 0)
    return Status::error(Code::invalid_argument, "the snapshot is damaged: its SHA-256 is not that of its bytes");
  if (load_le<uint32_t>(from.data() + 12) != 0 || load_le<uint32_t>(from.data() + 148) != 0)
    return Status::error(Code::invalid_argument, "a field of the snapshot that must be 0 is not");
  return {};
}

Status check_model(const gguf::Identity& snapshot, const gguf::Identity& own) {
  const char* differs = nullptr;
  if (snapshot.metadata != own.metadata) differs = "metadata";
  if (snapshot.tensors != own.tensors) differs = "tensor table";
  if (snapshot.file_bytes != own.file_bytes)
    return Status::error(Code::invalid_argument,
                         "the snapshot was made with another model: its file has {} bytes, this one's {}",
                         snapshot.file_bytes, own.file_bytes);
  if (differs == nullptr && snapshot.samples != own.samples) differs = "weights";
  if (differs == nullptr) return {};
  return Status::error(Code::invalid_argument, "the snapshot was made with another model: it has another {}", differs);
}

// The text under way, ready to be put into the session.
struct RestoredText {
  TextStream stream;
  std::string_view held;
};

Status check_text(const mote_session& session, const Head& head, std::string_view character, std::string_view held,
                  RestoredText* text) {
  if (head.finish > MOTE_FINISH_CONTEXT_FULL)
    return Status::error(Code::invalid_argument, "the snapshot's text has finish {}; the highest is {}", head.finish,
                         static_cast<int>(MOTE_FINISH_CONTEXT_FULL));
  if (!text->stream.set_held(character))
    return Status::error(Code::invalid_argument,
                         "the {} bytes that the snapshot holds as an unfinished character are not the beginning of one",
                         character.size());
  if (!held.empty() && !session.stops->would_hold(held))
    return Status::error(Code::invalid_argument,
                         "the snapshot's text holds back {} bytes that do not begin a stop string of this session",
                         held.size());
  text->held = held;
  return {};
}

Status restore(mote_session& session, std::span<const uint8_t> from) {
  MOTE_RETURN_IF_ERROR(check_whole(session, from));
  Head head;
  head.read(from.data());
  MOTE_RETURN_IF_ERROR(check_model(head.model, identity_of(*session.model)));
  const size_t room = from.size() - kLeastBytes;
  if (head.character_bytes > room || head.held_bytes > room - head.character_bytes)
    return Status::error(Code::invalid_argument, "the snapshot's text of {} and {} bytes does not fit into it",
                         head.character_bytes, head.held_bytes);
  const std::string_view texts(reinterpret_cast<const char*>(from.data()) + kHeadBytes,
                               size_t{head.character_bytes} + head.held_bytes);
  RestoredText text;
  MOTE_RETURN_IF_ERROR(
      check_text(session, head, slice(texts, 0, head.character_bytes), slice(texts, head.character_bytes), &text));
  const std::span<const uint8_t> sequence = from.subspan(kHeadBytes + texts.size(), room - texts.size());
  MOTE_RETURN_IF_ERROR(session.sequence->check_snapshot(sequence));
  MOTE_RETURN_IF_ERROR(session.sequence->restore(sequence));

  session.seed = head.seed;
  session.stream = text.stream;
  session.stops->reset();
  static_cast<void>(session.stops->feed(text.held));   // holds all of it: would_hold said so
  session.finish = static_cast<mote_finish>(head.finish);
  return {};
}

}   // namespace
}   // namespace mote

extern "C" {

mote_status mote_snapshot_bytes(mote_session* session, uint64_t* snapshot_bytes, mote_error* error) {
  using namespace mote;
  const SessionCall call(session);
  if (!call.status().ok()) return report(call.status(), error);
  if (snapshot_bytes == nullptr) return report(Status::error(Code::invalid_argument, "snapshot_bytes is NULL"), error);
  *snapshot_bytes = mote::snapshot_bytes(*session);
  return MOTE_OK;
}

mote_status mote_snapshot(mote_session* session, void* data, uint64_t capacity_bytes, uint64_t* snapshot_bytes,
                          mote_error* error) {
  using namespace mote;
  const SessionCall call(session);
  if (!call.status().ok()) return report(call.status(), error);
  return report(snapshot(*session, data, capacity_bytes, snapshot_bytes), error);
}

mote_status mote_restore(mote_session* session, const void* data, uint64_t data_bytes, mote_error* error) {
  using namespace mote;
  const SessionCall call(session);
  Status status = call.status();
  if (status.ok() && data == nullptr) status = Status::error(Code::invalid_argument, "data is NULL");
  if (status.ok() && data_bytes > SIZE_MAX)
    status = Status::error(Code::invalid_argument, "data_bytes is {}, more than this machine addresses", data_bytes);
  if (status.ok()) status = restore(*session, {static_cast<const uint8_t*>(data), static_cast<size_t>(data_bytes)});
  return report(status, error);
}

}   // extern "C"
