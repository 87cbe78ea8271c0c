// Text calls of mote.h: tokenise, detokenise, chat prompts, and the text of an answer as it comes.
#include "core/model_opening.h"
#include "core/session.h"
#include "platform/memory.h"

namespace mote {
namespace {

Status need_tokenizer(const mote_model* model) {
  if (model == nullptr) return Status::error(Code::invalid_argument, "model is NULL");
  return model->tokenizer == nullptr ? model->no_tokenizer : Status();
}

Status check_list(const void* out, size_t capacity, size_t* count, std::string_view what) {
  if (count == nullptr) return Status::error(Code::invalid_argument, "the count of {} is NULL", what);
  *count = 0;
  if (out == nullptr && capacity != 0)
    return Status::error(Code::invalid_argument, "{} is NULL with a capacity of {}", what, capacity);
  return {};
}

Status finish_output(uint64_t needed, size_t capacity, size_t* count, std::string_view what) {
  *count = static_cast<size_t>(needed);
  if (needed > capacity)
    return Status::error(Code::buffer_too_small, "{} need room for {}, there is room for {}", what, needed, capacity);
  return {};
}

// Runs `encode(scratch)` with the caller's scratch; where there is none, first without any, then with what it asks for.
template <class Encode>
Result<Encoded> with_scratch(const mote_memory& given, uint64_t most_bytes, Encode encode) {
  if (given.data != nullptr) {
    const Result<Encoded> encoded =
        encode(std::span(static_cast<std::byte*>(given.data), static_cast<size_t>(given.bytes)));
    if (encoded.ok() || encoded.status().code() != Code::buffer_too_small) return encoded;
    return Status::error(Code::out_of_memory, "the scratch handed over has {} bytes; this text may need {}",
                         given.bytes, most_bytes);
  }
  const Result<Encoded> plain = encode(std::span<std::byte>());
  if (plain.ok() || plain.status().code() != Code::buffer_too_small) return plain;
  void* pages = allocate_pages(most_bytes);
  if (pages == nullptr)
    return Status::error(Code::out_of_memory,
                         "this text needs {} bytes of working memory, which the platform does not give", most_bytes);
  const Result<Encoded> encoded = encode(std::span(static_cast<std::byte*>(pages), static_cast<size_t>(most_bytes)));
  free_pages(pages, most_bytes);
  return encoded;
}

Status tokenize(const mote_model* model, const char* text, size_t text_bytes, uint32_t flags,
                const mote_memory& scratch, int32_t* tokens, size_t capacity, size_t* n_tokens) {
  MOTE_RETURN_IF_ERROR(need_tokenizer(model));
  MOTE_RETURN_IF_ERROR(check_list(tokens, capacity, n_tokens, "tokens"));
  if (text == nullptr && text_bytes != 0)
    return Status::error(Code::invalid_argument, "text is NULL with text_bytes {}", text_bytes);
  if ((flags & ~uint32_t{MOTE_ADD_SPECIAL | MOTE_PARSE_SPECIAL}) != 0)
    return Status::error(Code::invalid_argument, "flags is {}; known are MOTE_ADD_SPECIAL and MOTE_PARSE_SPECIAL",
                         flags);
  const Tokenizer& tokenizer = *model->tokenizer;
  const TextPart part{{text == nullptr ? "" : text, text_bytes}, (flags & MOTE_PARSE_SPECIAL) != 0};
  MOTE_ASSIGN_OR_RETURN(const Encoded encoded,
                        with_scratch(scratch, tokenizer.scratch_bytes(part.text), [&](std::span<std::byte> bytes) {
                          return tokenizer.encode(part, (flags & MOTE_ADD_SPECIAL) != 0, {tokens, capacity}, bytes);
                        }));
  return finish_output(encoded.n_tokens, capacity, n_tokens, "tokens");
}

Status detokenize(const mote_model* model, const int32_t* tokens, size_t n_tokens, char* text, size_t capacity,
                  size_t* n_bytes) {
  MOTE_RETURN_IF_ERROR(need_tokenizer(model));
  MOTE_RETURN_IF_ERROR(check_list(text, capacity, n_bytes, "text bytes"));
  if (tokens == nullptr && n_tokens != 0)
    return Status::error(Code::invalid_argument, "tokens is NULL with n_tokens {}", n_tokens);
  MOTE_ASSIGN_OR_RETURN(const uint64_t needed,
                        model->tokenizer->detokenize({tokens, n_tokens}, true, {text, capacity}));
  return finish_output(needed, capacity, n_bytes, "text bytes");
}

// ------------------------------------------------------------------------------------------------ chat

ChatMessage message_at(const void* messages, size_t index) {
  const mote_message& message = static_cast<const mote_message*>(messages)[index];
  return {message.role, {message.content == nullptr ? "" : message.content, message.content_bytes}};
}

struct Conversation {
  ChatPrompt prompt;
  uint64_t text_bytes = 0;   // of the contents
  const ChatFormat* format = nullptr;
};

Status read_conversation(const mote_model* model, const mote_chat_options* given, const mote_message* messages,
                         size_t n_messages, Conversation* conversation) {
  MOTE_RETURN_IF_ERROR(need_tokenizer(model));
  mote_chat_options options;
  MOTE_RETURN_IF_ERROR(read_options(given, "options", &options));
  if (options.thinking < MOTE_THINKING_DEFAULT || options.thinking > MOTE_THINKING_OFF)
    return Status::error(Code::invalid_argument, "thinking is {}; known are 0 to 2", options.thinking);
  if (messages == nullptr && n_messages != 0)
    return Status::error(Code::invalid_argument, "messages is NULL with n_messages {}", n_messages);
  if (options.format == nullptr) {
    MOTE_ASSIGN_OR_RETURN(conversation->format, model->tokenizer->chat_format());
  } else {
    MOTE_ASSIGN_OR_RETURN(conversation->format, find_chat_format(options.format));
  }
  for (size_t i = 0; i < n_messages; ++i) {
    const mote_message& message = messages[i];
    if (message.role == nullptr || (message.content == nullptr && message.content_bytes != 0))
      return Status::error(Code::invalid_argument, "message {} has a role or content that is NULL", i);
    if (!checked_add(conversation->text_bytes, message.content_bytes, &conversation->text_bytes))
      return Status::error(Code::invalid_argument, "the contents of {} messages have more than 2^64 bytes", i + 1);
  }
  conversation->prompt = {
      {messages, n_messages, message_at}, options.no_generation_prompt == 0, options.thinking != MOTE_THINKING_OFF};
  return {};
}

Status chat_text(const mote_model* model, const mote_chat_options* options, const mote_message* messages,
                 size_t n_messages, char* text, size_t capacity, size_t* n_bytes) {
  MOTE_RETURN_IF_ERROR(check_list(text, capacity, n_bytes, "text bytes"));
  Conversation conversation;
  MOTE_RETURN_IF_ERROR(read_conversation(model, options, messages, n_messages, &conversation));
  MOTE_ASSIGN_OR_RETURN(const uint64_t needed,
                        model->tokenizer->chat_text(*conversation.format, conversation.prompt, {text, capacity}));
  return finish_output(needed, capacity, n_bytes, "text bytes");
}

Status chat_tokens(const mote_model* model, const mote_chat_options* options, const mote_message* messages,
                   size_t n_messages, const mote_memory& scratch, int32_t* tokens, size_t capacity, size_t* n_tokens) {
  MOTE_RETURN_IF_ERROR(check_list(tokens, capacity, n_tokens, "tokens"));
  Conversation conversation;
  MOTE_RETURN_IF_ERROR(read_conversation(model, options, messages, n_messages, &conversation));
  const Tokenizer& tokenizer = *model->tokenizer;
  const uint64_t most_bytes = tokenizer.chat_scratch_bytes(n_messages, conversation.text_bytes);
  MOTE_ASSIGN_OR_RETURN(const Encoded encoded, with_scratch(scratch, most_bytes, [&](std::span<std::byte> bytes) {
                          return tokenizer.chat_tokens(*conversation.format, conversation.prompt, {tokens, capacity},
                                                       bytes);
                        }));
  return finish_output(encoded.n_tokens, capacity, n_tokens, "tokens");
}

// ------------------------------------------------------------------------------------------------ the answer

// Copies what the stop strings release into the session's text.
void collect(mote_session& session, const Released& released, mote_text* text) {
  for (const std::string_view piece : {released.held, released.fresh})
    for (const char c : piece)
      if (text->n_bytes < session.text.size()) session.text[text->n_bytes++] = c;
  if (released.stopped) session.finish = MOTE_FINISH_STOP_STRING;
}

void flush_text(mote_session& session, mote_text* text) {
  const size_t n = session.stream.flush(session.characters);
  collect(session, session.stops->feed({session.characters.data(), n}), text);
  if (session.finish != MOTE_FINISH_STOP_STRING) collect(session, session.stops->finish(), text);
}

Status text_next(mote_session& session, mote_text* text) {
  MOTE_RETURN_IF_ERROR(need_tokenizer(session.model));
  if (session.finish != MOTE_FINISH_NONE)
    return Status::error(Code::wrong_state, "the text has ended; feed something to begin a new one");
  int32_t token = -1;
  const Status status = next_token(session, &token);
  if (status.code() == Code::context_full) {
    session.finish = MOTE_FINISH_CONTEXT_FULL;
    flush_text(session, text);
  } else {
    MOTE_RETURN_IF_ERROR(status);
    text->token = token;
    const Tokenizer& tokenizer = *session.model->tokenizer;
    if (tokenizer.is_end(token)) {
      session.finish = MOTE_FINISH_END_TOKEN;
      flush_text(session, text);
    } else {
      const auto piece_bytes = static_cast<size_t>(tokenizer.piece(token, false, session.piece));
      const size_t n = session.stream.push({session.piece.data(), piece_bytes}, session.characters);
      collect(session, session.stops->feed({session.characters.data(), n}), text);
    }
  }
  return {};
}

mote_text no_text() {
  mote_text text{};
  text.bytes = "";
  text.token = -1;
  return text;
}

// `to` was checked.
void give_text(const mote_session& session, mote_text text, mote_text* to) {
  if (session.text.data() != nullptr) text.bytes = session.text.data();
  text.finish = session.finish;
  static_cast<void>(write_struct(text, "text", to).ok());
}

}   // namespace

void begin_text(mote_session& session) {
  session.stream = TextStream();
  session.stops->reset();
  session.finish = MOTE_FINISH_NONE;
}

void fill_tokenizer_info(const mote_model& model, mote_model_info* info) {
  info->bos_token = info->eos_token = -1;
  if (model.tokenizer == nullptr) return;
  const Tokenizer& tokenizer = *model.tokenizer;
  if (info->n_vocab == 0) info->n_vocab = tokenizer.n_vocab();
  info->bos_token = tokenizer.bos();
  info->eos_token = tokenizer.eos();
  info->adds_bos = tokenizer.adds_bos() ? 1 : 0;
  const Result<const ChatFormat*> format = tokenizer.chat_format();
  info->chat_format = format.ok() ? format.value()->name.data() : nullptr;
}

}   // namespace mote

extern "C" {

mote_status mote_tokenize(const mote_model* model, const char* text, size_t text_bytes, uint32_t flags,
                          mote_memory scratch, int32_t* tokens, size_t capacity, size_t* n_tokens, mote_error* error) {
  const mote::FloatMode float_mode;   // pieces are compared by their scores
  return mote::report(mote::tokenize(model, text, text_bytes, flags, scratch, tokens, capacity, n_tokens), error);
}

uint64_t mote_tokenize_scratch_bytes(const mote_model* model, size_t text_bytes) {
  return model == nullptr || model->tokenizer == nullptr ? 0 : model->tokenizer->scratch_bytes(text_bytes);
}

mote_status mote_detokenize(const mote_model* model, const int32_t* tokens, size_t n_tokens, char* text,
                            size_t capacity, size_t* n_bytes, mote_error* error) {
  return mote::report(mote::detokenize(model, tokens, n_tokens, text, capacity, n_bytes), error);
}

int32_t mote_is_end_token(const mote_model* model, int32_t token) {
  return model != nullptr && model->tokenizer != nullptr && model->tokenizer->is_end(token) ? 1 : 0;
}

int32_t mote_end_token(const mote_model* model, uint32_t index) {
  return model == nullptr || model->tokenizer == nullptr ? -1 : model->tokenizer->end_token(index);
}

mote_status mote_chat_text(const mote_model* model, const mote_chat_options* options, const mote_message* messages,
                           size_t n_messages, char* text, size_t capacity, size_t* n_bytes, mote_error* error) {
  return mote::report(mote::chat_text(model, options, messages, n_messages, text, capacity, n_bytes), error);
}

mote_status mote_chat_tokens(const mote_model* model, const mote_chat_options* options, const mote_message* messages,
                             size_t n_messages, mote_memory scratch, int32_t* tokens, size_t capacity, size_t* n_tokens,
                             mote_error* error) {
  const mote::FloatMode float_mode;
  return mote::report(mote::chat_tokens(model, options, messages, n_messages, scratch, tokens, capacity, n_tokens),
                      error);
}

uint64_t mote_chat_scratch_bytes(const mote_model* model, size_t n_messages, size_t text_bytes) {
  return model == nullptr || model->tokenizer == nullptr ? 0
                                                         : model->tokenizer->chat_scratch_bytes(n_messages, text_bytes);
}

const char* mote_chat_format_name(uint32_t index) {
  const std::string_view name = mote::chat_format_name(index);
  return name.empty() ? nullptr : name.data();
}

mote_status mote_text_next(mote_session* session, mote_text* text, mote_error* error) {
  using namespace mote;
  const SessionCall call(session);
  Status status = call.status();
  if (status.ok()) status = check_output("text", text);
  if (!status.ok()) return report(status, error);
  mote_text next = no_text();
  status = text_next(*session, &next);
  give_text(*session, next, text);
  return report(status, error);
}

mote_status mote_text_flush(mote_session* session, mote_text* text, mote_error* error) {
  using namespace mote;
  const SessionCall call(session);
  Status status = call.status();
  if (status.ok()) status = check_output("text", text);
  if (status.ok()) status = need_tokenizer(session->model);
  if (!status.ok()) return report(status, error);
  mote_text rest = no_text();
  if (session->finish == MOTE_FINISH_NONE) flush_text(*session, &rest);
  give_text(*session, rest, text);
  return MOTE_OK;
}

}   // extern "C"
