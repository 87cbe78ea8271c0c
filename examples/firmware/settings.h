/* What this firmware opens and asks. measure.c quotes it, main.c runs it. */
#pragma once
#include "core/mote.h"
#include "examples/firmware/board.h"

/* model.c */
extern const unsigned char firmware_model[], firmware_model_end[];

static const char kPrompt[] = "the hello and the ";
enum { kMostPromptTokens = 32, kTokens = 24 };

static const mote_engine_options kEngineOptions = {
    .struct_bytes = sizeof kEngineOptions, .backends = "cpu", .threads = 1};

static const mote_sampler kSamplers[] = {
    {.kind = MOTE_SAMPLER_TOP_K, .count = 40},
    {.kind = MOTE_SAMPLER_TOP_P, .value = 0.95},
    {.kind = MOTE_SAMPLER_TEMPERATURE, .value = 0.8},
};
static const mote_session_options kSessionOptions = {
    .struct_bytes = sizeof kSessionOptions,
    .context = kMostPromptTokens + kTokens,
    .max_batch = 8,
    .seed = 4,
    .samplers = kSamplers,
    .n_samplers = sizeof kSamplers / sizeof *kSamplers,
};

static inline mote_source model_source(void) {
  const mote_source source = {.struct_bytes = sizeof source,
                              .data = firmware_model,
                              .data_bytes = (uint64_t)(firmware_model_end - firmware_model)};
  return source;
}

/* A board has no printf: these few are enough. */
static inline void print_number(uint64_t value) {
  char digits[21];
  char* at = digits + sizeof digits - 1;
  *at = 0;
  do *--at = (char)('0' + value % 10);
  while ((value /= 10) != 0);
  board_print(at);
}

static inline void print_line(const char* name, uint64_t value) {
  board_print(name);
  board_print(" ");
  print_number(value);
  board_print("\n");
}
