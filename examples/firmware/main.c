/* A language model on a machine without an operating system: a prompt in, sampled tokens out. The model is read where
 * it lies among the constants; everything else mote needs is the arena below, whose size measure.c found. */
#include <firmware_quote.h> /* what measure.c printed */
#include "examples/firmware/settings.h"

static _Alignas(64) unsigned char arena[FIRMWARE_ENGINE_BYTES + FIRMWARE_MODEL_BYTES + FIRMWARE_SESSION_BYTES];

static const mote_memory kEngineMemory = {arena, FIRMWARE_ENGINE_BYTES};
static const mote_memory kModelMemory = {arena + FIRMWARE_ENGINE_BYTES, FIRMWARE_MODEL_BYTES};
static const mote_memory kSessionMemory = {arena + FIRMWARE_ENGINE_BYTES + FIRMWARE_MODEL_BYTES,
                                           FIRMWARE_SESSION_BYTES};

#if FIRMWARE_PRINT_LOGITS
/* Every logit as its 32 bits: what can be compared with another machine's. */
static void print_logits(const float* logits, size_t count) {
  static const char kDigits[] = "0123456789abcdef";
  board_print("logits");
  for (size_t i = 0; i < count; ++i) {
    char word[10] = " ";
    union {
      float value;
      uint32_t bits;
    } logit = {logits[i]};
    for (int digit = 0; digit < 8; ++digit) word[1 + digit] = kDigits[logit.bits >> (28 - 4 * digit) & 15];
    board_print(word);
  }
  board_print("\n");
}
#endif

static mote_status answer(mote_session* session, mote_error* error) {
  for (int i = 0; i < kTokens; ++i) {
    int32_t token = 0;
    mote_status status = mote_step(session, error);
#if FIRMWARE_PRINT_LOGITS
    const float* logits = NULL;
    size_t n_vocab = 0;
    if (!status) status = mote_logits(session, &logits, &n_vocab, error);
    if (!status) print_logits(logits, n_vocab);
#endif
    if (!status) status = mote_sample(session, &token, error);
    if (status) return status;
    print_line("id", (uint64_t)token);
  }
  return MOTE_OK;
}

int main(void) {
  const mote_source source = model_source();
  const mote_memory none = {NULL, 0};
  mote_engine* engine = NULL;
  mote_model* model = NULL;
  mote_session* session = NULL;
  int32_t prompt[kMostPromptTokens];
  size_t n_prompt = 0;
  mote_error error = {0};

  mote_status status = mote_engine_open(&kEngineOptions, kEngineMemory, &engine, &error);
  if (!status) status = mote_model_open(engine, &source, NULL, kModelMemory, &model, &error);
  if (!status) status = mote_session_open(model, &kSessionOptions, kSessionMemory, &session, &error);
  if (!status)
    status = mote_tokenize(model, kPrompt, sizeof kPrompt - 1, MOTE_ADD_SPECIAL, none, prompt, kMostPromptTokens,
                           &n_prompt, &error);
  for (size_t i = 0; !status && i < n_prompt; ++i) print_line("prompt", (uint64_t)prompt[i]);
  if (!status) status = mote_feed(session, prompt, n_prompt, NULL, &error);
  if (!status) status = answer(session, &error);
  if (status) {
    board_print("firmware: ");
    board_print(error.message);
    board_print("\n");
  }
  mote_session_close(session, NULL);
  mote_model_close(model, NULL);
  mote_engine_close(engine, NULL);
  print_line("model bytes", source.data_bytes);
  print_line("packed bytes", FIRMWARE_PACKED_BYTES);
  print_line("arena bytes", sizeof arena);
  print_line("stack bytes", board_stack_used());
  return status ? 1 : 0;
}
