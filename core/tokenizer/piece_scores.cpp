#include "core/tokenizer/piece_scores.h"

#include "core/base/slice.h"

namespace mote {
namespace {

constexpr std::string_view kScoresKey = "tokenizer.ggml.scores", kTokensKey = "tokenizer.ggml.tokens";

int32_t hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The byte that <0xHH> stands for, or -1.
int32_t byte_of(std::string_view piece) {
  if (piece.size() != 6 || slice(piece, 0, 3) != "<0x" || piece[5] != '>') return -1;
  const int32_t high = hex_digit(piece[3]), low = hex_digit(piece[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

}   // namespace

Status PieceScores::open(const gguf::File& file, const Vocabulary& vocabulary, int32_t unknown_id, bool measuring) {
  MOTE_ASSIGN_OR_RETURN(const gguf::Entry scores, file.get_array(kScoresKey, gguf::Type::float32));
  if (scores.count != vocabulary.size())
    return Status::error(Code::bad_model, "{} has {} elements, {} has {}", kScoresKey, scores.count, kTokensKey,
                         vocabulary.size());
  scores_ = scores.value;
  unknown_id_ = unknown_id;
  if (measuring) return {};

  byte_ids_.fill(-1);
  uint32_t n_bytes = 0;
  for (uint32_t id = 0; id < vocabulary.size(); ++id) {
    if (const float value = (*this)[id]; value != value)
      return Status::error(Code::bad_model, "{}: the score of piece {} is not a number", kScoresKey, id);
    if (vocabulary.type(id) != PieceType::byte) continue;
    const int32_t byte = byte_of(vocabulary.spelling(id));
    if (byte < 0)
      return Status::error(Code::bad_model, "{}: byte piece {} is {}, expected <0x00> to <0xFF>", kTokensKey, id,
                           vocabulary.spelling(id));
    if (byte_ids_[static_cast<size_t>(byte)] >= 0)
      return Status::error(Code::bad_model, "{}: pieces {} and {} both stand for byte {}", kTokensKey,
                           byte_ids_[static_cast<size_t>(byte)], id, byte);
    byte_ids_[static_cast<size_t>(byte)] = static_cast<int32_t>(id);
    ++n_bytes;
  }
  if (n_bytes != 0 && n_bytes != 256)
    return Status::error(Code::bad_model, "{} has {} byte pieces, allowed are none or all 256", kTokensKey, n_bytes);
  if (n_bytes == 0 && unknown_id < 0)
    return Status::error(Code::bad_model,
                         "{} has neither byte pieces nor an unknown piece, so not every text has tokens", kTokensKey);
  return {};
}

void PieceScores::put_unknown(std::string_view symbol, bool after_unknown, TokenSink& sink) const {
  if (byte_ids_[0] >= 0) {
    for (SpelledBytes bytes(symbol, true); !bytes.done();) sink.put(byte_ids_[bytes.next()]);
  } else if (!after_unknown) {
    sink.put(unknown_id_);
  }
}

}   // namespace mote
