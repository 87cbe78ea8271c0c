#include "core/tokenizer/tokenizer.h"

namespace mote {
namespace {

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

Result<Tokenizer*> Tokenizer::create(const gguf::File& file, Arena& arena) {
  Tokenizer measured;
  auto* tokenizer = arena.create<Tokenizer>();
  Tokenizer& target = tokenizer == nullptr ? measured : *tokenizer;
  MOTE_RETURN_IF_ERROR(target.open(file, arena));
  if (!arena.measuring()) MOTE_RETURN_IF_ERROR(arena.status("the tokenizer"));
  return tokenizer;
}

Status Tokenizer::open(const gguf::File& file, Arena& arena) {
  MOTE_ASSIGN_OR_RETURN(const std::string_view model, file.get_string("tokenizer.ggml.model"));
  if (model == "gpt2") {
    kind_ = TokenizerKind::byte_level;
  } else if (model == "llama") {
    kind_ = TokenizerKind::sentencepiece;
  } else {
    const std::string_view what = model == "bert" ? " (WordPiece)" : model == "t5" ? " (SentencePiece unigram)" : "";
    return Status::error(
        Code::unsupported,
        "tokenizer.ggml.model is {}{}, this build knows gpt2 (byte-level BPE) and llama (SentencePiece BPE)", model,
        what);
  }
  if (kind_ == TokenizerKind::byte_level) {
    MOTE_ASSIGN_OR_RETURN(const std::string_view name, file.get_string("tokenizer.ggml.pre"));
    pre_ = find_pre_tokenizer(name);
    if (pre_ == nullptr)
      return Status::error(Code::unsupported, "tokenizer.ggml.pre is {}, this build knows {}", name,
                           pre_tokenizer_names());
  } else {
    MOTE_ASSIGN_OR_RETURN(adds_space_prefix_, file.get_bool("tokenizer.ggml.add_space_prefix", true));
    MOTE_ASSIGN_OR_RETURN(const bool squeezes, file.get_bool("tokenizer.ggml.remove_extra_whitespaces", false));
    if (squeezes)
      return Status::error(Code::unsupported,
                           "tokenizer.ggml.remove_extra_whitespaces is true, this build knows false");
  }
  MOTE_RETURN_IF_ERROR(vocabulary_.open(file, kind_, arena));
  MOTE_RETURN_IF_ERROR(read_token_ids(file, kind_ == TokenizerKind::sentencepiece || pre_->adds_bos));
  if (!arena.measuring()) MOTE_RETURN_IF_ERROR(find_unknown(file));
  if (kind_ == TokenizerKind::byte_level) {
    MOTE_RETURN_IF_ERROR(byte_pairs_.open(file, vocabulary_, pre_->whole_words, unknown_, arena));
  } else {
    MOTE_RETURN_IF_ERROR(sentence_pieces_.open(file, vocabulary_, unknown_, arena.measuring()));
  }
  MOTE_ASSIGN_OR_RETURN(const std::string_view chat_template,
                        file.get_string("tokenizer.chat_template", std::string_view()));
  has_chat_template_ = !chat_template.empty();
  if (arena.measuring()) return {};
  if (const Result<const ChatFormat*> format = match_chat_format(chat_template); format.ok())
    chat_format_ = format.value();
  return mark_end_tokens(file);
}

Status Tokenizer::read_token_ids(const gguf::File& file, bool adds_bos_by_default) {
  MOTE_ASSIGN_OR_RETURN(bos_, token_id(file, "tokenizer.ggml.bos_token_id", n_vocab()));
  MOTE_ASSIGN_OR_RETURN(eos_, token_id(file, "tokenizer.ggml.eos_token_id", n_vocab()));
  MOTE_ASSIGN_OR_RETURN(
      adds_bos_, adds(file, "tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id", bos_, adds_bos_by_default));
  MOTE_ASSIGN_OR_RETURN(adds_eos_,
                        adds(file, "tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id", eos_, false));
  return {};
}

// SentencePiece vocabularies always have an unknown piece; when no key names it, its type does.
Status Tokenizer::find_unknown(const gguf::File& file) {
  MOTE_ASSIGN_OR_RETURN(const int32_t unknown, token_id(file, "tokenizer.ggml.unknown_token_id", n_vocab()));
  unknown_ = kind_ == TokenizerKind::byte_level ? -1 : unknown;
  for (uint32_t id = 0; id < n_vocab() && unknown_ < 0 && kind_ == TokenizerKind::sentencepiece; ++id)
    if (vocabulary_.type(id) == PieceType::unknown) unknown_ = static_cast<int32_t>(id);
  return {};
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
