#include "core/tokenizer/tokenizer.h"

#include "core/tokenizer/tokenizer_kinds.h"

namespace mote {
namespace {

Result<const TokenizerRow*> find_row(std::string_view model) {
  char known[160];
  uint32_t length = 0;
  known[0] = 0;
  for (const TokenizerRow& row : kTokenizerRows) {
    if (!row.is_built) continue;
    if (row.model == model) return &row;
    const FormatArgument arguments[] = {FormatArgument(length == 0 ? "" : ", "), FormatArgument(row.model),
                                        FormatArgument(row.what)};
    length += format_sentence(known + length, static_cast<uint32_t>(sizeof known) - length, "{}{} ({})", arguments, 3);
  }
  return Status::error(Code::unsupported, "tokenizer.ggml.model is {}, this build knows {}", model,
                       std::string_view(known, length));
}

constexpr std::string_view kEndTexts[] = {
#define MOTE_END_TOKEN(text) text,
#include "core/tokenizer/end_tokens.inc"
#undef MOTE_END_TOKEN
};

// Every key whose token ends a turn or a text.
constexpr std::string_view kEndKeys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                         "tokenizer.ggml.eom_token_id"};

// The id under a key, or -1 where there is none.
Result<int32_t> token_id(const gguf::File& file, std::string_view key, uint32_t n_vocab) {
  MOTE_ASSIGN_OR_RETURN(const uint64_t id, file.get_unsigned(key, 0, uint64_t{n_vocab} - 1, UINT64_MAX));
  return id == UINT64_MAX ? -1 : static_cast<int32_t>(id);
}

// Whether token `id` goes around texts. A file that says so must say which token; the kind's default may lack one.
Result<bool> adds(const gguf::File& file, std::string_view key, std::string_view id_key, int32_t id, bool otherwise) {
  MOTE_ASSIGN_OR_RETURN(const bool asked_for, file.get_bool(key, false));
  if (asked_for && id < 0)
    return Status::error(Code::bad_model, "{} is true, but {}, which names that token, is missing", key, id_key);
  MOTE_ASSIGN_OR_RETURN(const bool wanted, file.get_bool(key, otherwise));
  return wanted && id >= 0;
}

}   // namespace

Result<Tokenizer*> Tokenizer::create(const gguf::File& file, Arena& arena, uint64_t* piece_bytes) {
  Tokenizer measured;
  auto* tokenizer = arena.create<Tokenizer>();
  Tokenizer& target = tokenizer == nullptr ? measured : *tokenizer;
  MOTE_RETURN_IF_ERROR(target.open(file, arena));
  if (piece_bytes != nullptr) *piece_bytes = target.longest_piece_bytes();
  if (!arena.measuring()) MOTE_RETURN_IF_ERROR(arena.status("the tokenizer"));
  return tokenizer;
}

Status Tokenizer::open(const gguf::File& file, Arena& arena) {
  MOTE_ASSIGN_OR_RETURN(const std::string_view model, file.get_string("tokenizer.ggml.model"));
  MOTE_ASSIGN_OR_RETURN(row_, find_row(model));
  kind_ = row_->kind;
  if (kind_ == TokenizerKind::byte_level) {
    MOTE_ASSIGN_OR_RETURN(const std::string_view name, file.get_string("tokenizer.ggml.pre"));
    pre_ = find_pre_tokenizer(name);
    if (pre_ == nullptr)
      return Status::error(Code::unsupported, "tokenizer.ggml.pre is {}, this build knows {}", name,
                           pre_tokenizer_names());
  }
  MOTE_RETURN_IF_ERROR(vocabulary_.open(file, kind_, arena));
  MOTE_RETURN_IF_ERROR(read_token_ids(file, arena.measuring()));
  MOTE_RETURN_IF_ERROR(open_kind(file, arena));
  MOTE_ASSIGN_OR_RETURN(const std::string_view chat_template,
                        file.get_string("tokenizer.chat_template", std::string_view()));
  has_chat_template_ = !chat_template.empty();
  if (arena.measuring()) return {};
  if (const Result<const ChatFormat*> format = match_chat_format(chat_template); format.ok())
    chat_format_ = format.value();
  return mark_end_tokens(file);
}

Status Tokenizer::open_kind(const gguf::File& file, Arena& arena) {
  if (vocabulary_.spells_spaces()) {
    MOTE_ASSIGN_OR_RETURN(adds_space_prefix_, file.get_bool("tokenizer.ggml.add_space_prefix", true));
  }
  switch (kind_) {
    case TokenizerKind::byte_level:
      if constexpr (is_built(TokenizerKind::byte_level))
        return byte_pairs_.open(file, vocabulary_, pre_->whole_words, arena);
      break;
    case TokenizerKind::sentencepiece: {
      MOTE_ASSIGN_OR_RETURN(const bool squeezes, file.get_bool("tokenizer.ggml.remove_extra_whitespaces", false));
      if (squeezes)
        return Status::error(Code::unsupported,
                             "tokenizer.ggml.remove_extra_whitespaces is true, this build knows false for llama");
      if constexpr (is_built(TokenizerKind::sentencepiece))
        return sentence_pieces_.open(file, vocabulary_, unknown_, arena.measuring());
      break;
    }
    case TokenizerKind::unigram:
      if constexpr (is_built(TokenizerKind::unigram))
        return unigram_.open(file, vocabulary_, unknown_, adds_space_prefix_, arena.measuring());
      break;
    case TokenizerKind::word_pieces:
      if constexpr (is_built(TokenizerKind::word_pieces)) return word_pieces_.open(file, unknown_, arena.measuring());
      break;
  }
  return {};
}

Status Tokenizer::read_token_ids(const gguf::File& file, bool measuring) {
  MOTE_ASSIGN_OR_RETURN(bos_, token_id(file, "tokenizer.ggml.bos_token_id", n_vocab()));
  MOTE_ASSIGN_OR_RETURN(eos_, token_id(file, "tokenizer.ggml.eos_token_id", n_vocab()));
  MOTE_ASSIGN_OR_RETURN(unknown_, token_id(file, "tokenizer.ggml.unknown_token_id", n_vocab()));
  if (kind_ == TokenizerKind::word_pieces) {   // BERT has its own names for what goes around a text
    MOTE_ASSIGN_OR_RETURN(const int32_t first, token_id(file, "tokenizer.ggml.cls_token_id", n_vocab()));
    MOTE_ASSIGN_OR_RETURN(const int32_t last, token_id(file, "tokenizer.ggml.seperator_token_id", n_vocab()));
    if (bos_ < 0) bos_ = first;
    if (last >= 0) eos_ = last;
  }
  if (!measuring) find_unknown();
  const bool adds_bos = kind_ == TokenizerKind::byte_level ? pre_->adds_bos : row_->adds_bos;
  MOTE_ASSIGN_OR_RETURN(adds_bos_,
                        adds(file, "tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id", bos_, adds_bos));
  MOTE_ASSIGN_OR_RETURN(
      adds_eos_, adds(file, "tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id", eos_, row_->adds_eos));
  return {};
}

// Kinds other than byte-level BPE need an unknown piece, at least now and then; when no key names it, its type does.
void Tokenizer::find_unknown() {
  for (uint32_t id = 0; id < n_vocab() && unknown_ < 0 && kind_ != TokenizerKind::byte_level; ++id)
    if (vocabulary_.type(id) == PieceType::unknown) unknown_ = static_cast<int32_t>(id);
}

Status Tokenizer::mark_end_tokens(const gguf::File& file) {
  for (const std::string_view key : kEndKeys) {
    MOTE_ASSIGN_OR_RETURN(const int32_t id, token_id(file, key, n_vocab()));
    if (id >= 0) vocabulary_.mark_end(static_cast<uint32_t>(id));
  }
  for (const std::string_view text : kEndTexts) {
    const int32_t id = vocabulary_.find(text);
    if (id >= 0 && vocabulary_.type(static_cast<uint32_t>(id)) == PieceType::control)
      vocabulary_.mark_end(static_cast<uint32_t>(id));
  }
  return {};
}

int32_t Tokenizer::end_token(uint32_t index) const {
  for (uint32_t id = 0; id < n_vocab(); ++id)
    if (vocabulary_.is_end(id) && index-- == 0) return static_cast<int32_t>(id);
  return -1;
}

}   // namespace mote
