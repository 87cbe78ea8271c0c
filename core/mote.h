/* mote: transformers on the device itself. The one header an app needs; C99 and C++.
 *
 *   engine    threads and backends; one per process is enough
 *   model     a GGUF file opened: weights stay where they are. Immutable, shared by any number of sessions
 *   session   one conversation: its KV state, activations, sampler and token history. One thread at a time
 *
 * Models of three kinds: those that continue a text (mote_feed, mote_next); encoders, which turn one into vectors
 * (mote_encode, mote_embedding); and those with an encoder and a decoder that reads it: mote_encode first, then the
 * calls of the first kind. A call that does not fit the kind is MOTE_UNSUPPORTED and says which one does.
 *
 * Conventions
 *   Every call that can fail returns a mote_status; MOTE_OK is 0. With an error argument that is not NULL, a failure
 * also writes one sentence that names the thing, the place and the limit. No call aborts, prints, throws or keeps
 * globals. An option struct starts with its own size and means the default wherever a field is zero:
 *       mote_session_options options = {sizeof options};
 *   A struct that a call fills starts with its size too, set by the caller: no more than that is written. (A mote_error
 * never grows; mote_message, mote_sampler and mote_logit_bias are elements of arrays and stay as they are.)
 *   Memory is handed over by the caller (mote_memory) or, when that is {NULL, 0}, taken from the platform once, when
 *   the thing opens; the quote calls say how many bytes, exactly. Memory handed over must be 64-byte aligned, and
 *   belongs to the thing until it is closed. After set-up, the calls on a session allocate nothing. The one exception
 * is a backend that fails: Backends that fail: where several backends are in the engine's list, a model or a session
 * goes on without one that fails, as if the rest had run it from the beginning: it runs its tokens again and the call
 * that met the failure goes on. The log tells it. What that takes comes from memory that was handed over beyond the
 * quote, then from the platform, at that moment; where there is none, or nobody else runs those steps, the call is
 * MOTE_BACKEND_FAILED and the thing stays as it was. See fallback_bytes and on_backend_failure. A backend that does not
 * run a model, or a session of this shape, is left in the same way when that opens; quotes are made without it too, so
 * they hold. Threads: one engine serves any number of threads, its models and sessions too. Calls on an engine and on a
 * model may run at the same time, but for the call that closes it, which must be the last one; opening and closing
 * models, and opening, quoting and closing sessions, count as such calls. A session is inside one call at a time, and
 * says MOTE_BUSY to a second one; mote_cancel is free. Different sessions run at the same time. Byte counts end in
 * _bytes; everything else is a count. Texts are UTF-8 with an explicit length, unless they are const char*, which end
 * with a zero.
 */
#ifndef MOTE_H
#define MOTE_H

#include <stddef.h>
#include <stdint.h>

#if !defined(MOTE_API)
#if defined(__GNUC__)
#define MOTE_API __attribute__((visibility("default")))
#else
#define MOTE_API
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mote_engine mote_engine;
typedef struct mote_model mote_model;
typedef struct mote_session mote_session;

/* ------------------------------------------------------------------------------------------------ status */

typedef enum mote_status {
  MOTE_OK = 0,
  MOTE_INVALID_ARGUMENT = 1, /* an option, token or pointer of the caller */
  MOTE_IO = 2,               /* a file cannot be opened, read or mapped */
  MOTE_BAD_MODEL = 3,        /* the model's bytes contradict themselves or the format */
  MOTE_UNSUPPORTED = 4,      /* well formed, but of a kind this build does not run */
  MOTE_OUT_OF_MEMORY = 5,    /* the memory handed over is too small, or the platform has none */
  MOTE_BUFFER_TOO_SMALL = 6, /* the output buffer; the needed size was written */
  MOTE_CONTEXT_FULL = 7,     /* the session's positions are used up */
  MOTE_CANCELLED = 8,        /* mote_cancel was called */
  MOTE_WRONG_STATE = 9,      /* the call does not fit the moment: nothing fed yet, sessions still open */
  MOTE_BUSY = 10,            /* the session is inside another call */
  MOTE_NOT_FINITE = 11,      /* a logit is NaN or +infinity, or all are -infinity; a value of an embedding is either; a
                                key, a value or the vector of a recurrent layer is NaN */
  MOTE_BACKEND_FAILED = 12   /* a backend could not do what it had offered, and no other one took over */
} mote_status;

/* Written by a call that fails; untouched by one that succeeds. 256 bytes, the caller's. */
typedef struct mote_error {
  int32_t status;    /* a mote_status */
  char message[252]; /* one sentence, zero-terminated, printable ASCII */
} mote_error;

/* "MOTE_BAD_MODEL" and so on; "unknown status" for other numbers. */
MOTE_API const char* mote_status_name(mote_status status);
/* "0.1.0" */
MOTE_API const char* mote_version(void);

/* ------------------------------------------------------------------------------------------------ memory */

typedef struct mote_memory {
  void* data; /* 64-byte aligned; NULL: the platform is asked */
  uint64_t bytes;
} mote_memory;

/* What opening takes. total_bytes is a multiple of 64 and exactly what must be handed over; with one byte less the
 * opening is MOTE_OUT_OF_MEMORY. The kinds add up to total_bytes; what follows them is listed apart. */
typedef struct mote_quote {
  size_t struct_bytes; /* set by the caller */
  uint64_t total_bytes;
  uint64_t tables_bytes;     /* handles, metadata and tensor tables */
  uint64_t tokenizer_bytes;  /* model: the vocabulary's index */
  uint64_t vectors_bytes;    /* model: norms, biases and frequencies widened to f32 or f64 */
  uint64_t plan_bytes;       /* model: steps and Values; session: where they lie */
  uint64_t packed_bytes;     /* model: all that backends made of the plan (weights they repacked, and the tables of the
                                kernels that they chose), and the file under load = copy */
  uint64_t state_bytes;      /* session: KV, recurrent vectors */
  uint64_t activation_bytes; /* session: Values between steps, logits, hidden states, taps */
  uint64_t scratch_bytes;    /* session: backends' working memory; engine: backends and threads */
  uint64_t sampler_bytes;    /* session: candidates, stop strings, text, the embedding */
  uint64_t history_bytes;    /* session: the tokens so far */
  /* listed apart, not in total_bytes */
  uint64_t file_bytes;     /* mapped or lent, read where it lies */
  uint64_t device_bytes;   /* on a device */
  uint64_t stack_bytes;    /* stacks of the engine's threads */
  uint64_t library_bytes;  /* what libraries under a backend are expected to take */
  uint64_t fallback_bytes; /* model, session: what is taken beyond total_bytes when backends fail, at worst: those in
                              use one after the other in order of preference. Handed over with total_bytes, the platform
                              is not asked. 0: nobody could take over, or on_backend_failure is stop */
} mote_quote;

/* ------------------------------------------------------------------------------------------------ engine */

/* Runs task(context, lane) for each lane 0 .. lanes - 1, in any order, on any threads, and returns when all are done.
 * A task never waits for another one. Two sessions that run at the same time call it at the same time, from the threads
 * of their callers, and the lanes of both regions must all be run. */
typedef void (*mote_parallel_for)(void* user, uint32_t lanes, void (*task)(void* context, uint32_t lane),
                                  void* context);

/* A line worth telling (a backend that is off or failed, and why; more threads than can run at once): one sentence
 * without a newline. Called until the engine is closed, on the thread of the call that it is about, so by several at
 * once; it must not call into the session or the model that it hears of. */
typedef void (*mote_log)(void* user, const char* line);

typedef struct mote_engine_options {
  size_t struct_bytes;
  const char* backends; /* names in order of preference, "vulkan,cpu", none twice and none empty; NULL or "auto":
                           the extra_backends as listed, then those of this build that are taken unasked (vulkan
                           is not: it is slower than cpu so far) */
  uint32_t threads;     /* 0: as many as the affinity mask, the container's quota and the performance cores give */
  mote_parallel_for parallel_for; /* the host's own threads: mote then starts none and uses `threads` lanes */
  void* parallel_for_user;
  mote_log log; /* it and log_user live until the engine is closed */
  void* log_user;
  void* const* extra_backends; /* mote::Backend* of core/ops/backend.h, the app's, each of another name; they live until
                                  the engine is closed, which calls close() of those that it took, once. In a list of
                                  names the app's come before the build's of the same name */
  size_t n_extra_backends;
  const char* instruction_set; /* "baseline": only what the library is compiled for; "avx2", "avxvnni", "avx512",
                                  "avx512vnni" on x86-64, "dotprod", "i8mm" on aarch64: up to that, where the machine
                                  has it; NULL or "auto": all that it has. No bit of a result depends on it */
} mote_engine_options;

/* options may be NULL. What is wrong with the options is what opening would say; *quote is then untouched. Backends are
 * asked as by opening: a device may be opened for it, and is closed again. */
MOTE_API mote_status mote_engine_quote(const mote_engine_options* options, mote_quote* quote, mote_error* error);
/* options may be NULL. The engine reads the options only during the call. */
MOTE_API mote_status mote_engine_open(const mote_engine_options* options, mote_memory memory, mote_engine** engine,
                                      mote_error* error);
/* In a process forked off, what the parent had opened goes on with the same bits, on the calling thread alone: the
 * engine's threads stay with the parent. A session that was inside a call at the fork answers MOTE_BUSY there for good.
 * An engine that the child opens has threads of its own. Not so what vulkan runs: a device stays with the parent, and
 * its sessions answer MOTE_BACKEND_FAILED in the child. */
/* MOTE_WRONG_STATE while a model is open. NULL is fine. */
MOTE_API mote_status mote_engine_close(mote_engine* engine, mote_error* error);
/* Lanes that a parallel region has: the number of threads, the caller's included. */
MOTE_API uint32_t mote_engine_threads(const mote_engine* engine);

/* ------------------------------------------------------------------------------------------------ model */

typedef enum mote_load {
  MOTE_LOAD_MAP = 0,  /* the file is mapped. One that is changed or shortened while it is used is beyond mote's reach:
                         what was checked is then something else (reads beyond the file, SIGBUS) */
  MOTE_LOAD_COPY = 1, /* the file is read into the model's memory and never mapped: safe from later changes, counted in
                         packed_bytes. A quote reads the bytes before the tensor data into memory of the platform, for
                         the length of the call */
  MOTE_LOAD_PREFAULT = 2 /* mapped, and mote_model_open returns when all of the file is in memory and in the page tables
                            of this process, so that no token waits for it. Not of a vocabulary-only model. What the
                            system does not do of that is left as MOTE_LOAD_MAP has it, without a status */
} mote_load;

/* Where the GGUF bytes are: exactly one of data, path and use_descriptor. A split model is a chain of its parts: the
 * source of the first one, whose next is the second, and so on; at most 1024. All that is said of bytes and files holds
 * for each, and offsets in the model are those in its parts laid end to end. */
typedef struct mote_source {
  size_t struct_bytes;
  const void* data; /* bytes in memory at any address; must stay unchanged until the model is closed */
  uint64_t data_bytes;
  const char* path;       /* a whole file: offset_bytes and length_bytes are 0 */
  int32_t use_descriptor; /* 0, or 1: an open file descriptor, not taken over; may be closed after the call */
  int32_t descriptor;
  uint64_t offset_bytes;          /* descriptor: where the model starts in the file */
  uint64_t length_bytes;          /* descriptor: 0: up to the end of the file */
  int32_t load;                   /* a mote_load, for path and descriptor */
  const struct mote_source* next; /* the next part; NULL: none */
} mote_source;

/* How an encoder makes one vector of all the hidden states of an input. */
typedef enum mote_pooling {
  MOTE_POOLING_OF_MODEL = 0, /* as the file says */
  MOTE_POOLING_NONE = 1,     /* not at all: mote_hidden alone */
  MOTE_POOLING_MEAN = 2,
  MOTE_POOLING_CLS = 3, /* the first token's */
  MOTE_POOLING_LAST = 4 /* the last token's */
} mote_pooling;

/* Weights of attention that sessions of a model keep of each batch, for mote_attention: bits of
 * mote_model_options.taps. */
typedef enum mote_tap {
  MOTE_TAP_DECODER_ATTENTION = 1, /* of a decoder's tokens, to those before them */
  MOTE_TAP_ENCODER_ATTENTION = 2, /* of an encoder's input, to itself */
  MOTE_TAP_CROSS_ATTENTION = 4    /* of a decoder's tokens, to an encoder's input */
} mote_tap;

/* A tokenizer that is missing, or of a kind that this build does not know, is what the text calls answer:
 * MOTE_UNSUPPORTED. Ids can be run all the same. */
typedef struct mote_model_options {
  size_t struct_bytes;
  int32_t vocabulary_only; /* 1: metadata, tensor table and tokenizer, as far as the file has them, and no plan: any
                              architecture, any weight formats */
  mote_memory scratch;     /* working memory for quotes and for opening, for the length of the call; {NULL, 0}: the
                              platform is asked. Its size: mote_model_scratch_bytes */
  int32_t pooling;         /* a mote_pooling, of a model with an encoder; others pass it over */
  uint32_t taps;           /* bits of mote_tap; those of attention that the model does not have are passed over, as long
                              as one is left. 0: none, and nothing is different or costs more. Else a session keeps, in
                              activation_bytes, max_batch x heads x context (to an input: x max_batch) floats for each
                              layer, and backends without the op attention_weights leave those layers to the next ones */
  uint32_t tap_first_layer, tap_layers; /* the layers that are tapped; tap_layers 0: all from the first on */
} mote_model_options;

struct mote_session_options;

/* Reads only the bytes before the tensor data. With session_quote not NULL, also says what a session with
 * session_options (NULL: the defaults) will take. */
MOTE_API mote_status mote_model_quote(mote_engine* engine, const mote_source* source, const mote_model_options* options,
                                      const struct mote_session_options* session_options, mote_quote* model_quote,
                                      mote_quote* session_quote, mote_error* error);
/* Bytes of working memory that quoting or opening this model wants. */
MOTE_API mote_status mote_model_scratch_bytes(const mote_source* source, uint64_t* scratch_bytes, mote_error* error);
/* A backend that fails to compile its part is left out; in memory of the caller that is then too small,
 * MOTE_OUT_OF_MEMORY names the bytes that are needed now (total_bytes and fallback_bytes are enough). */
MOTE_API mote_status mote_model_open(mote_engine* engine, const mote_source* source, const mote_model_options* options,
                                     mote_memory memory, mote_model** model, mote_error* error);
/* MOTE_WRONG_STATE while a session is open. NULL is fine. */
MOTE_API mote_status mote_model_close(mote_model* model, mote_error* error);

/* Texts live as long as the model. What a vocabulary-only model has not read (the widths, layers and heads) is 0. Heads
 * and d_ff are those of the first layer; of a model with an encoder and a decoder they, and n_layers, are the
 * encoder's.
 */
typedef struct mote_model_info {
  size_t struct_bytes; /* set by the caller */
  const char* architecture;
  uint32_t n_vocab, d_model, n_layers, n_heads, n_kv_heads, head_dim, d_ff;
  uint32_t trained_context;
  uint64_t n_parameters;
  uint64_t file_bytes, weight_bytes;
  uint32_t n_tensors, n_metadata;
  int32_t bos_token, eos_token; /* -1: none */
  int32_t adds_bos;             /* 1: mote_tokenize with MOTE_ADD_SPECIAL puts the start token first */
  const char* chat_format;      /* "chatml"; NULL: none that mote knows */
  uint32_t gguf_version;
  int32_t encodes, decodes;    /* 1: it has an encoder, a decoder */
  int32_t decoder_start_token; /* what a decoder is fed first after mote_encode; -1: the file names none, and bos_token
                                  is usual */
} mote_model_info;
MOTE_API mote_status mote_model_get_info(const mote_model* model, mote_model_info* info, mote_error* error);

/* One metadata entry as the file holds it, and one tensor; index < n_metadata, n_tensors, else MOTE_INVALID_ARGUMENT
 * and the struct is untouched. Names and values are not zero-terminated; they lie in the model's bytes and are there
 * until it is closed. */
typedef struct mote_metadata {
  size_t struct_bytes; /* set by the caller */
  const char* key;
  size_t key_bytes;
  int32_t type;         /* GGUF's number: 0 uint8 ... 8 string, 9 array ... 12 float64 */
  int32_t element_type; /* of an array's elements; otherwise type */
  uint64_t count;       /* an array's elements; otherwise 1 */
  const void* value;    /* little-endian, any address; a string or an array of strings: each with its u64 length */
  uint64_t value_bytes;
} mote_metadata;
typedef struct mote_tensor {
  size_t struct_bytes; /* set by the caller */
  const char* name;
  size_t name_bytes;
  const char* format; /* "q4_0", zero-terminated; "unknown": a type without a name */
  uint32_t n_dimensions;
  uint64_t dimensions[4]; /* columns first, as GGUF has them */
  uint64_t bytes;         /* 0 in a vocabulary-only model where mote does not know the format's blocks */
  uint64_t offset_bytes;
} mote_tensor;
MOTE_API mote_status mote_model_metadata(const mote_model* model, uint32_t index, mote_metadata* entry,
                                         mote_error* error);
MOTE_API mote_status mote_model_tensor(const mote_model* model, uint32_t index, mote_tensor* tensor, mote_error* error);

/* ------------------------------------------------------------------------------------------------ text */

enum {
  MOTE_ADD_SPECIAL = 1,  /* add what the model wants around a text (start token) */
  MOTE_PARSE_SPECIAL = 2 /* recognise control tokens in the text; without it they are plain text */
};

/* Text to token ids. *n_tokens becomes the number of ids; MOTE_BUFFER_TOO_SMALL when that is over capacity (nothing
 * useful was written; tokens may be NULL with capacity 0). Bad UTF-8 counts as U+FFFD, one per maximal bad part.
 * At most 2^28 bytes of
 * text. scratch: mote_tokenize_scratch_bytes(text_bytes) of it, or {NULL, 0}: the platform is asked for the length of
 * the call when the text needs more than a small stack buffer. Time is linear in the text but for a logarithm. */
MOTE_API mote_status mote_tokenize(const mote_model* model, const char* text, size_t text_bytes, uint32_t flags,
                                   mote_memory scratch, int32_t* tokens, size_t capacity, size_t* n_tokens,
                                   mote_error* error);
MOTE_API uint64_t mote_tokenize_scratch_bytes(const mote_model* model, size_t text_bytes);

/* Token ids to the exact bytes they stand for, control tokens shown; text is not zero-terminated and need not be whole
 * characters. Undoes mote_tokenize of a whole text: where that puts a blank before the text (SentencePiece with
 * add_space_prefix), a blank at the beginning is left out, so each call drops one. For tokens that come one after the
 * other use mote_text_next. *n_bytes becomes the number of bytes; MOTE_BUFFER_TOO_SMALL as above (text may be NULL with
 * capacity 0), MOTE_INVALID_ARGUMENT for a token outside of the vocabulary. */
MOTE_API mote_status mote_detokenize(const mote_model* model, const int32_t* tokens, size_t n_tokens, char* text,
                                     size_t capacity, size_t* n_bytes, mote_error* error);

/* 1 when generation ends with this token. */
MOTE_API int32_t mote_is_end_token(const mote_model* model, int32_t token);
/* The index-th end token, or -1. */
MOTE_API int32_t mote_end_token(const mote_model* model, uint32_t index);

typedef struct mote_message {
  const char* role; /* "system", "user", "assistant" */
  const char* content;
  size_t content_bytes;
} mote_message;

typedef enum mote_thinking {
  MOTE_THINKING_DEFAULT = 0, /* what the format does unasked: on, in those that mote knows */
  MOTE_THINKING_ON = 1,
  MOTE_THINKING_OFF = 2 /* the prompt tells the model not to think before it answers */
} mote_thinking;

typedef struct mote_chat_options {
  size_t struct_bytes;
  const char* format;           /* NULL: the one matched to the model's own template, MOTE_UNSUPPORTED where none is */
  int32_t no_generation_prompt; /* 1: the prompt ends behind the last message, not where an answer begins */
  int32_t thinking;             /* a mote_thinking; formats without such a switch (all but qwen3) take no notice */
} mote_chat_options;

/* The prompt of a conversation in a chat format; options NULL: in the model's own, up to where the answer begins. Roles
 * in an order that the format does not have (gemma and mistral: user and assistant in turn, after a system message) are
 * MOTE_INVALID_ARGUMENT. The format llama3.1 tells the model the date that its template has by default, 26 Jul 2024;
 * qwen3 leaves out what the model thought before earlier answers (<think> to </think>). */
MOTE_API mote_status mote_chat_text(const mote_model* model, const mote_chat_options* options,
                                    const mote_message* messages, size_t n_messages, char* text, size_t capacity,
                                    size_t* n_bytes, mote_error* error);
/* The same as token ids: only the format's own text is parsed for control tokens, messages are plain text. The start
 * token stands first where the model wants one. */
MOTE_API mote_status mote_chat_tokens(const mote_model* model, const mote_chat_options* options,
                                      const mote_message* messages, size_t n_messages, mote_memory scratch,
                                      int32_t* tokens, size_t capacity, size_t* n_tokens, mote_error* error);
/* Bytes of scratch that are enough for mote_chat_tokens of n messages whose roles and contents have text_bytes bytes.
 */
MOTE_API uint64_t mote_chat_scratch_bytes(const mote_model* model, size_t n_messages, size_t text_bytes);
/* The index-th chat format that mote knows, or NULL. */
MOTE_API const char* mote_chat_format_name(uint32_t index);

/* ------------------------------------------------------------------------------------------------ sampling */

typedef enum mote_sampler_kind {
  MOTE_SAMPLER_TEMPERATURE = 1,         /* value: divides the logits, 0 or more; 0: greedy: stages that only cut are
                                          passed over,
                                          penalties, bans and biases count */
  MOTE_SAMPLER_TOP_K = 2,               /* count: most probable tokens kept, and all equal to the last; <= 0: all */
  MOTE_SAMPLER_TOP_P = 3,               /* value: smallest set whose mass reaches p is kept, 0 to 1; 1: all */
  MOTE_SAMPLER_MIN_P = 4,               /* value: least share of the largest probability, 0 to 1; 0: all */
  MOTE_SAMPLER_TYPICAL_P = 5,           /* value: mass of the most typical tokens, above 0, up to 1; 1: all */
  MOTE_SAMPLER_EPSILON = 6,             /* value: least probability, 0 to below 1; 0: all */
  MOTE_SAMPLER_ETA = 7,                 /* value: eta sampling's epsilon, 0 to below 1; 0: all */
  MOTE_SAMPLER_NO_REPEAT_NGRAM = 8,     /* count: n-grams of this length never repeat, 0 (off) to 64 */
  MOTE_SAMPLER_REPETITION_PENALTY = 9,  /* value: penalty, above 0; count: the last tokens looked at, 0: all */
  MOTE_SAMPLER_FREQUENCY_PRESENCE = 10, /* value: per occurrence, value2: once, both finite; count as above */
  MOTE_SAMPLER_LOGIT_BIAS = 11,         /* adds the session's logit_bias list here in the chain */
  MOTE_SAMPLER_GREEDY = 12              /* the largest logit, the lowest id among equals */
} mote_sampler_kind;

/* One stage of a chain; stages run in the order given. */
typedef struct mote_sampler {
  int32_t kind; /* a mote_sampler_kind */
  int32_t count;
  double value;
  double value2;
} mote_sampler;

typedef struct mote_logit_bias {
  int32_t token;
  float bias; /* -INFINITY: never */
} mote_logit_bias;

/* ------------------------------------------------------------------------------------------------ session */

typedef enum mote_kv_type { MOTE_KV_F16 = 0, MOTE_KV_F32 = 1 } mote_kv_type;
typedef enum mote_on_full { MOTE_ON_FULL_STOP = 0, MOTE_ON_FULL_SLIDE = 1 } mote_on_full;
typedef enum mote_on_backend_failure {
  MOTE_ON_BACKEND_FAILURE_GO_ON = 0,
  MOTE_ON_BACKEND_FAILURE_STOP = 1
} mote_on_backend_failure;

typedef struct mote_session_options {
  size_t struct_bytes;
  uint32_t context;         /* positions, at most 2^24; 0: the trained length, at most 4096. More than trained is
                               allowed, but not where positions are learned (gpt2; of bert it is max_batch) */
  uint32_t max_batch;       /* rows computed at once, 0: 512; at most the context. Longer feeds are cut inside */
  uint32_t max_output_rows; /* rows of logits computed at once, 0: 1; at most max_batch */
  int32_t kv_type;          /* a mote_kv_type */
  int32_t on_full; /* a mote_on_full. Slide: when the context is full, half of the tokens after the first `keep`
                      (rounded up) are dropped, the oldest first, and the rest is fed again: the logits of a
                      fresh session with those tokens, at that cost */
  uint32_t keep;   /* slide: tokens at the start that are never dropped; below the context */
  uint64_t seed;   /* sampling depends on (seed, index of the token since the session began) only */
  const mote_sampler* samplers; /* the chain, at most 16 stages; none: greedy. Copied */
  size_t n_samplers;
  const mote_logit_bias* logit_bias; /* at most 65,536, for the stage MOTE_SAMPLER_LOGIT_BIAS and no other;
                                        copied */
  size_t n_logit_bias;
  const char* const* stops; /* generation by mote_text_next ends before any of these texts: at most 16,
                               of 1 to 1024 bytes each; copied */
  size_t n_stops;
  int32_t on_backend_failure; /* a mote_on_backend_failure. Go on: without the backend, as said at the top of this file:
                                 the history is run again, which takes its time and can be cancelled, and what follows
                                 has the bits of the backends that are left; seed, samplers, text and done counts go on
                                 as they were. A session never goes back. One that fails while it runs is given up by
                                 the model: sessions opened later begin without it (quote them anew). Stop: nothing is
                                 allocated, the call is MOTE_BACKEND_FAILED and the session stays as it was; a shape
                                 that a backend does not run is MOTE_UNSUPPORTED */
  uint32_t decode_threads;    /* threads of the engine's that a batch of one row takes, which is what mote_step and
                                 mote_next run; longer batches take all. At most mote_engine_threads, else
                                 MOTE_INVALID_ARGUMENT; 0: all. No bit of a result and no quote depends on it */
} mote_session_options;

/* From any thread; MOTE_BUSY only where another one quotes and the platform gives no memory for two. */
MOTE_API mote_status mote_session_quote(mote_model* model, const mote_session_options* options, mote_quote* quote,
                                        mote_error* error);
MOTE_API mote_status mote_session_open(mote_model* model, const mote_session_options* options, mote_memory memory,
                                       mote_session** session, mote_error* error);
/* MOTE_BUSY inside another call; the session then stays open. NULL is fine. */
MOTE_API mote_status mote_session_close(mote_session* session, mote_error* error);

/* Appends tokens and runs all but the last, which stays pending until mote_step, mote_next or another feed. Cut inside
 * into batches. done (may be NULL) becomes how many of the n tokens are in the history: n on MOTE_OK, 0 when the call
 * was refused (MOTE_CONTEXT_FULL names both counts), the tokens of the finished batches after a cancel or a failure;
 * feeding the rest then gives what one call would have given, bit for bit. After a cancel or a failure the last token
 * that stayed is pending: going on with mote_step or mote_next instead is as after a mote_rewind to it. A call that was
 * refused changes nothing, which holds for mote_prompt, mote_evaluate and mote_rewind too. */
MOTE_API mote_status mote_feed(mote_session* session, const int32_t* tokens, size_t n, size_t* done, mote_error* error);

/* Makes the history exactly these tokens: keeps the longest common beginning, rewinds to it, appends the rest and runs
 * it; the last token counts as stepped. reused (may be NULL) becomes the tokens that did not have to be run, done (may
 * be NULL) how many of the n are in the history, those that were there already included. Needs n >= 1. */
MOTE_API mote_status mote_prompt(mote_session* session, const int32_t* tokens, size_t n, size_t* reused, size_t* done,
                                 mote_error* error);

/* Called with logits [rows, n_vocab] of the tokens first .. first + rows - 1 of a mote_evaluate call; the memory is the
 * session's and valid during the call. Anything but 0 stops: MOTE_CANCELLED. */
typedef int32_t (*mote_on_logits)(void* user, size_t first, size_t rows, const float* logits, size_t n_vocab);
/* Appends tokens, runs all of them (a pending one too) and hands over the logits after each, at most max_output_rows
 * rows at a time. The last token counts as stepped. on_logits NULL: only the logits after the last one are made, for
 * mote_logits and mote_sample: what mote_feed and mote_step do, but the weights are read once less. */
MOTE_API mote_status mote_evaluate(mote_session* session, const int32_t* tokens, size_t n, mote_on_logits on_logits,
                                   void* user, size_t* done, mote_error* error);

/* Begins a new sequence with this input of an encoder and runs it, whole, in one batch: n is 1 to max_batch, more is
 * MOTE_CONTEXT_FULL with both numbers. What the session held before, history included, is gone, unless the call was
 * refused; after a cancel or a failure it holds no input. A decoder then reads the input, and the calls below feed it;
 * mote_rewind(session, 0) begins a new answer to the same input. Snapshots hold the input's tokens; restoring one
 * encodes them again (a restore that is cancelled there leaves it to the next call that a decoder runs for; where the
 * model only encodes, mote_hidden is then MOTE_WRONG_STATE until the next mote_encode). */
MOTE_API mote_status mote_encode(mote_session* session, const int32_t* tokens, size_t n, mote_error* error);
/* The encoder's last hidden states [*n_rows, *d_model] of that input, one row for each token, as wide as the model's
 * last layer; a view that the next call on the session ends, after which it can be asked for again. MOTE_UNSUPPORTED
 * where the model has no encoder, MOTE_WRONG_STATE before the first mote_encode. */
MOTE_API mote_status mote_hidden(mote_session* session, const float** hidden, size_t* n_rows, size_t* d_model,
                                 mote_error* error);
enum {
  MOTE_EMBEDDING_RAW = 1 /* as it was pooled; otherwise divided by its Euclidean length (a vector of zeros stays one) */
};
/* What the input was pooled to, [*n]: as wide as a hidden state; of a classifier the score of each class, in the order
 * of the labels in its metadata (rnn.classifier.output_labels), which MOTE_EMBEDDING_RAW gives as they are (their
 * softmax are probabilities). A view that the next call on the session ends. MOTE_UNSUPPORTED where the model does not
 * pool (mote_model_options.pooling makes it), MOTE_NOT_FINITE when a value is infinite or no number. */
MOTE_API mote_status mote_embedding(mote_session* session, uint32_t flags, const float** embedding, size_t* n,
                                    mote_error* error);

/* The weights of one layer's attention in the last batch that was run, [n_rows, n_heads, n_positions]: what each row
 * looked at. `tap` is one mote_tap. A row's sum over the positions is 1 but for rounding; what it may not see is 0.
 * (They are computed beside the attention, whose own weights may differ in the last bits.) Positions are the
 * sequence's, from 0 on; the batch's last row stands at position n_positions - 1. (MOTE_TAP_ENCODER_ATTENTION: those of
 * the input, as the rows are. MOTE_TAP_CROSS_ATTENTION: those of the input; rows as of MOTE_TAP_DECODER_ATTENTION.) A
 * feed runs all tokens but the last, in batches of max_batch: to see every row feed no more at once, and step in the
 * end. Their bits do not depend on the batch, and on the backend cpu not on threads or instruction sets either. A view
 * that the next call on the session ends; not in snapshots. MOTE_UNSUPPORTED: the model has no such attention, or was
 * opened without the tap. MOTE_INVALID_ARGUMENT: a layer that is not there. MOTE_WRONG_STATE: no batch was run, or the
 * rows of the last one are forgotten (mote_rewind). */
MOTE_API mote_status mote_attention(mote_session* session, int32_t tap, uint32_t layer, const float** weights,
                                    size_t* n_rows, size_t* n_heads, size_t* n_positions, mote_error* error);

/* Runs the pending token, after which its logits are there. Without a pending one: MOTE_OK
 * when its logits are there already, else MOTE_WRONG_STATE. */
MOTE_API mote_status mote_step(mote_session* session, mote_error* error);
/* The logits [*n_vocab] after the last token stepped; a view that the next call on the session ends, after which it can
 * be asked for again. They are as the model gave them: NaN and infinities are for who samples. MOTE_WRONG_STATE when
 * there are none: nothing was stepped yet, or tokens are pending. */
MOTE_API mote_status mote_logits(mote_session* session, const float** logits, size_t* n_vocab, mote_error* error);
/* Samples from those logits and appends the token, pending. *token (may be NULL) becomes it, -1 on a failure, which
 * changes nothing: MOTE_WRONG_STATE without logits, MOTE_NOT_FINITE. When the context is full: MOTE_CONTEXT_FULL and
 * nothing changes (stop), or the next call that runs the model slides first; until then the history is one over the
 * context. */
MOTE_API mote_status mote_sample(mote_session* session, int32_t* token, mote_error* error);
/* mote_step where a token is pending, then mote_sample. */
MOTE_API mote_status mote_next(mote_session* session, int32_t* token, mote_error* error);

typedef enum mote_finish {
  MOTE_FINISH_NONE = 0,        /* goes on */
  MOTE_FINISH_END_TOKEN = 1,   /* the model ended its turn; the token's own text is not shown */
  MOTE_FINISH_STOP_STRING = 2, /* a stop string came; it is not shown */
  MOTE_FINISH_CONTEXT_FULL = 3
} mote_finish;

typedef struct mote_text {
  size_t struct_bytes; /* set by the caller */
  const char* bytes;   /* new text, whole characters only, not zero-terminated; valid until the next call */
  size_t n_bytes;      /* may be 0: held back */
  int32_t token;       /* the token sampled, -1: none */
  int32_t finish;      /* a mote_finish */
} mote_text;

/* mote_next, as text: holds back an unfinished character and what may become a stop string. mote_feed, mote_prompt,
 * mote_evaluate, mote_encode and mote_rewind begin a new text, unless they are refused: what was held back is dropped.
 * A full context is a finish, not a status. After a finish: MOTE_WRONG_STATE until a new text begins. *text is written
 * whenever it can be, on a failure too: no bytes, token -1, and the finish so far. What a finish lets go is searched
 * for stop strings like all other text: one that comes with an end token or a full context makes it
 * MOTE_FINISH_STOP_STRING. */
MOTE_API mote_status mote_text_next(mote_session* session, mote_text* text, mote_error* error);
/* Lets go what is still held back, for whoever ends a text early; an unfinished character becomes U+FFFD. *text is
 * written as by mote_text_next: its bytes are the session's, token is -1; after a finish there are none. They are
 * searched for stop strings, too. It runs nothing and takes no notice of a cancel; mote_text_next may go on behind it.
 */
MOTE_API mote_status mote_text_flush(mote_session* session, mote_text* text, mote_error* error);

/* Forgets all tokens but the first n_tokens; the last kept one is pending again. Going on gives the bits that a fresh
 * session fed with those tokens would give. */
MOTE_API mote_status mote_rewind(mote_session* session, size_t n_tokens, mote_error* error);
/* The tokens so far, the pending one included; a view that the next call on the session ends. MOTE_BUSY inside another
 * call, as for every call on a session. */
MOTE_API mote_status mote_history(const mote_session* session, const int32_t** tokens, size_t* n_tokens,
                                  mote_error* error);
/* New sampling settings (samplers, n_samplers, logit_bias, seed); the list of biases may not be longer than when the
 * session opened. */
MOTE_API mote_status mote_set_samplers(mote_session* session, const mote_session_options* options, mote_error* error);

/* From any thread and from a signal handler: the call that runs, or else the next one that would run the model or
 * restore a snapshot, returns MOTE_CANCELLED within one layer; the history keeps the finished batches. Going on gives
 * the bits of a session that was never cancelled. Not once mote_session_close has begun. */
MOTE_API void mote_cancel(mote_session* session);

/* ------------------------------------------------------------------------------------------------ snapshot */

/* A snapshot is all that a session has come to, in bytes of the caller's: tokens (an encoder's input too), what the
 * model keeps of them (KV), logits that are there, seed, index of the next token, and the end of a text that
 * mote_text_next still holds back. It can be kept in memory or in a file and lie at any address. Samplers, biases, stop
 * strings and what happens when the context is full are not in it: they stay those of the session that is restored. */

/* The bytes that a snapshot of this session takes now. */
MOTE_API mote_status mote_snapshot_bytes(mote_session* session, uint64_t* snapshot_bytes, mote_error* error);
/* Writes one. *snapshot_bytes becomes its size; MOTE_BUFFER_TOO_SMALL when that is over the capacity (nothing was
 * written; data may be NULL with capacity_bytes 0). The session stays as it is, and a cancel stays for the next call.
 * Where a backend fails meanwhile and others take over, they run the tokens again, and the snapshot is theirs. The
 * first snapshot of a model also reads its metadata and samples of its weights. */
MOTE_API mote_status mote_snapshot(mote_session* session, void* data, uint64_t capacity_bytes, uint64_t* snapshot_bytes,
                                   mote_error* error);
/* Makes the session what the other one was, whatever it held before: going on gives the same bits. The sizes of
 * context and batch, the threads and the instruction sets may be others; not so the model (all of its metadata and
 * tensor table, samples of its weights), the KV type and the arithmetic of the backends that run it.
 * Refused, and the session stays as it is: MOTE_INVALID_ARGUMENT when the bytes are no snapshot, a damaged one, one of
 * another model, or hold back text that may become a stop string which this session does not have; MOTE_UNSUPPORTED for
 * another version of the layout, KV type or arithmetic; MOTE_CONTEXT_FULL when the tokens do not fit, naming both
 * counts. MOTE_CANCELLED and MOTE_BACKEND_FAILED come too late for that: the session keeps its own tokens, but may have
 * to run them again, which the next call that runs the model does. Where a backend fails meanwhile and others take
 * over, they run the snapshot's tokens again; a cancel then counts for the next call. The bytes must not change during
 * the call. */
MOTE_API mote_status mote_restore(mote_session* session, const void* data, uint64_t data_bytes, mote_error* error);

#ifdef __cplusplus
}
#endif

#endif
