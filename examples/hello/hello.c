/* The smallest chat with a model: hello MODEL.gguf "A question" */
#include <stdio.h>
#include <string.h>

#include "core/mote.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    fputs("usage: hello MODEL.gguf PROMPT\n", stderr);
    return 2;
  }
  const mote_memory any = {NULL, 0}; /* mote asks the platform, once per thing opened */
  const mote_source file = {.struct_bytes = sizeof file, .path = argv[1]};
  const mote_message question = {"user", argv[2], strlen(argv[2])};
  mote_engine* engine = NULL;
  mote_model* model = NULL;
  mote_session* session = NULL;
  int32_t tokens[1024];
  size_t n_tokens = 0;
  mote_text text = {.struct_bytes = sizeof text, .finish = MOTE_FINISH_NONE};
  mote_error error = {0};

  mote_status status = mote_engine_open(NULL, any, &engine, &error);
  if (!status) status = mote_model_open(engine, &file, NULL, any, &model, &error);
  if (!status) status = mote_session_open(model, NULL, any, &session, &error);
  if (!status) status = mote_chat_tokens(model, NULL, &question, 1, any, tokens, 1024, &n_tokens, &error);
  if (!status) status = mote_feed(session, tokens, n_tokens, NULL, &error);
  while (!status && text.finish == MOTE_FINISH_NONE) {
    status = mote_text_next(session, &text, &error);
    if (!status) fwrite(text.bytes, 1, text.n_bytes, stdout);
  }
  if (status) fprintf(stderr, "hello: %s\n", error.message);
  puts("");

  mote_session_close(session, NULL); /* in this order; NULL is fine everywhere */
  mote_model_close(model, NULL);
  mote_engine_close(engine, NULL);
  return status ? 1 : 0;
}
