/* What answer.c and the two copies share; C99 and C++. */
#ifndef MOTE_TESTS_INTEGRATION_ANSWER_H
#define MOTE_TESTS_INTEGRATION_ANSWER_H
#include <stdio.h>
#include <string.h>

#include "core/mote.h"

static mote_status answer_ids(mote_session* session, char* line, size_t capacity, mote_error* error) {
  const int32_t prompt[] = {1, 17, 42, 5, 99, 7, 23, 64, 11, 3};
  uint64_t hash = 1469598103934665603u; /* FNV-1a, 64 bits */
  int used = snprintf(line, capacity, "%s", mote_version());
  mote_status status = mote_feed(session, prompt, sizeof prompt / sizeof prompt[0], NULL, error);
  for (int i = 0; i < 8 && status == MOTE_OK; ++i) {
    const float* logits = NULL;
    size_t n_vocab = 0;
    int32_t token = -1;
    status = mote_step(session, error);
    if (status == MOTE_OK) status = mote_logits(session, &logits, &n_vocab, error);
    for (size_t k = 0; k < n_vocab; ++k) {
      uint32_t bits = 0;
      memcpy(&bits, &logits[k], sizeof bits);
      hash = (hash ^ bits) * 1099511628211u;
    }
    if (status == MOTE_OK) status = mote_sample(session, &token, error);
    used += snprintf(line + used, capacity - (size_t)used, " %d", (int)token);
  }
  snprintf(line + used, capacity - (size_t)used, " %016llx", (unsigned long long)hash);
  return status;
}

/* 1 with the line, 0 with a sentence. */
static int answer(const char* path, char* line, size_t capacity) {
  const mote_memory any = {NULL, 0};
  mote_engine_options engine_options;
  mote_source source;
  mote_engine* engine = NULL;
  mote_model* model = NULL;
  mote_session* session = NULL;
  mote_error error;
  mote_status status;
  memset(&engine_options, 0, sizeof engine_options);
  engine_options.struct_bytes = sizeof engine_options;
  engine_options.backends = "cpu";
  engine_options.threads = 2;
  memset(&source, 0, sizeof source);
  source.struct_bytes = sizeof source;
  source.path = path;
  status = mote_engine_open(&engine_options, any, &engine, &error);
  if (status == MOTE_OK) status = mote_model_open(engine, &source, NULL, any, &model, &error);
  if (status == MOTE_OK) status = mote_session_open(model, NULL, any, &session, &error);
  if (status == MOTE_OK) status = answer_ids(session, line, capacity, &error);
  if (status != MOTE_OK) snprintf(line, capacity, "%s", error.message);
  mote_session_close(session, NULL);
  mote_model_close(model, NULL);
  mote_engine_close(engine, NULL);
  return status == MOTE_OK;
}

#endif
