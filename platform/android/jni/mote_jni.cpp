// The native half of examples/android/Mote.kt: the class mote.Native, one function per call of mote.h that it needs.
//
// Texts cross as UTF-8 in byte arrays: JNI's own strings are not UTF-8 outside the basic plane and at zero. A failure
// becomes a mote.MoteException with the status and the sentence; no C++ exception can cross, since there are none.
// Handles are pointers in a long, 0 where there is nothing; Mote.kt never passes one that was closed.
#include <jni.h>

#include "core/mote.h"

namespace {

template <class Handle>
Handle* handle(jlong value) {
  return reinterpret_cast<Handle*>(static_cast<intptr_t>(value));
}
jlong as_long(const void* pointer) { return static_cast<jlong>(reinterpret_cast<intptr_t>(pointer)); }

void throw_status(JNIEnv* env, const mote_error& error) {
  jclass type = env->FindClass("mote/MoteException");
  if (type == nullptr) return;   // an exception of the JVM is pending
  jmethodID init = env->GetMethodID(type, "<init>", "(ILjava/lang/String;)V");
  jstring message = init == nullptr ? nullptr : env->NewStringUTF(error.message);   // printable ASCII
  if (message == nullptr) return;
  jobject exception = env->NewObject(type, init, static_cast<jint>(error.status), message);
  if (exception != nullptr) env->Throw(static_cast<jthrowable>(exception));
}

// True when all is well.
bool check(JNIEnv* env, mote_status status, const mote_error& error) {
  if (status != MOTE_OK) throw_status(env, error);
  return status == MOTE_OK;
}

bool refuse(JNIEnv* env, const char* sentence) {
  mote_error error = {MOTE_INVALID_ARGUMENT, {}};
  for (size_t i = 0; i + 1 < sizeof error.message && sentence[i] != 0; ++i) error.message[i] = sentence[i];
  throw_status(env, error);
  return false;
}

// A view of a Java array for the length of a scope. Empty where the array is null or the JVM has no memory.
class Bytes {
 public:
  Bytes(JNIEnv* env, jbyteArray array) : env_(env), array_(array) {
    if (array_ != nullptr) data_ = env_->GetByteArrayElements(array_, nullptr);
    if (data_ != nullptr) size_ = static_cast<size_t>(env_->GetArrayLength(array_));
  }
  ~Bytes() {
    if (data_ != nullptr) env_->ReleaseByteArrayElements(array_, data_, JNI_ABORT);
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  const char* data() const { return data_ == nullptr ? "" : reinterpret_cast<const char*>(data_); }
  size_t size() const { return size_; }

 private:
  JNIEnv* env_;
  jbyteArray array_;
  jbyte* data_ = nullptr;
  size_t size_ = 0;
};

static_assert(sizeof(jint) == sizeof(int32_t) && sizeof(jfloat) == sizeof(float) && sizeof(jbyte) == 1);

// `mode` is what becomes of changes: 0 copies them back, JNI_ABORT does not.
class Ints {
 public:
  Ints(JNIEnv* env, jintArray array, jint mode = JNI_ABORT) : env_(env), array_(array), mode_(mode) {
    if (array_ != nullptr) data_ = env_->GetIntArrayElements(array_, nullptr);
    if (data_ != nullptr) size_ = static_cast<size_t>(env_->GetArrayLength(array_));
  }
  ~Ints() {
    if (data_ != nullptr) env_->ReleaseIntArrayElements(array_, data_, mode_);
  }
  Ints(const Ints&) = delete;
  Ints& operator=(const Ints&) = delete;
  int32_t* data() const { return reinterpret_cast<int32_t*>(data_); }
  size_t size() const { return size_; }

 private:
  JNIEnv* env_;
  jintArray array_;
  jint mode_;
  jint* data_ = nullptr;
  size_t size_ = 0;
};

// Room for a conversation's messages, in an array of the JVM: the bridge has no heap of its own.
class MessageMemory {
 public:
  MessageMemory(JNIEnv* env, size_t n) : env_(env) {
    static_assert(alignof(mote_message) <= alignof(jlong));
    constexpr size_t kLongs = (sizeof(mote_message) + sizeof(jlong) - 1) / sizeof(jlong);
    if (n < INT32_MAX / kLongs) array_ = env_->NewLongArray(static_cast<jsize>(n * kLongs + 1));
    if (array_ != nullptr) data_ = env_->GetLongArrayElements(array_, nullptr);
  }
  ~MessageMemory() {
    if (data_ != nullptr) env_->ReleaseLongArrayElements(array_, data_, JNI_ABORT);
  }
  MessageMemory(const MessageMemory&) = delete;
  MessageMemory& operator=(const MessageMemory&) = delete;
  mote_message* messages() const { return reinterpret_cast<mote_message*>(data_); }

 private:
  JNIEnv* env_;
  jlongArray array_ = nullptr;
  jlong* data_ = nullptr;
};

constexpr size_t kFewTokens = 256;

// The array of ids that `produce(tokens, capacity, &count, &error)` gives: at once where they are few, else asked
// twice.
template <class Produce>
jintArray token_array(JNIEnv* env, Produce produce) {
  int32_t few[kFewTokens];
  size_t count = 0;
  mote_error error = {};
  mote_status status = produce(few, kFewTokens, &count, &error);
  if (status != MOTE_OK && status != MOTE_BUFFER_TOO_SMALL) return check(env, status, error), nullptr;
  if (count > INT32_MAX) return refuse(env, "the text has more tokens than a Java array holds"), nullptr;
  jintArray array = env->NewIntArray(static_cast<jsize>(count));
  if (array == nullptr) return nullptr;
  if (status == MOTE_OK) {
    env->SetIntArrayRegion(array, 0, static_cast<jsize>(count), reinterpret_cast<const jint*>(few));
    return array;
  }
  const Ints tokens(env, array, 0);
  if (tokens.data() == nullptr) return nullptr;
  status = produce(tokens.data(), tokens.size(), &count, &error);
  return check(env, status, error) ? array : nullptr;
}

jlong open_engine(JNIEnv* env, jclass, jint threads, jbyteArray backends) {
  const Bytes names(env, backends);   // ends with a zero, written by Mote.kt
  mote_engine_options options = {};
  options.struct_bytes = sizeof options;
  options.threads = threads > 0 ? static_cast<uint32_t>(threads) : 0;
  if (names.size() != 0) options.backends = names.data();
  mote_engine* engine = nullptr;
  mote_error error = {};
  check(env, mote_engine_open(&options, {}, &engine, &error), error);
  return as_long(engine);
}

void close_engine(JNIEnv* env, jclass, jlong engine) {
  mote_error error = {};
  check(env, mote_engine_close(handle<mote_engine>(engine), &error), error);
}

jlong open_model(JNIEnv* env, jlong engine, mote_source* source) {
  source->struct_bytes = sizeof *source;
  mote_model* model = nullptr;
  mote_error error = {};
  check(env, mote_model_open(handle<mote_engine>(engine), source, nullptr, {}, &model, &error), error);
  return as_long(model);
}

jlong open_model_path(JNIEnv* env, jclass, jlong engine, jbyteArray path, jboolean copy) {
  const Bytes text(env, path);   // ends with a zero
  mote_source source = {};
  source.path = text.data();
  source.load = copy ? MOTE_LOAD_COPY : MOTE_LOAD_MAP;
  return open_model(env, engine, &source);
}

// An asset of an APK, stored without compression, is a range of an open file.
jlong open_model_descriptor(JNIEnv* env, jclass, jlong engine, jint descriptor, jlong offset_bytes, jlong length_bytes,
                            jboolean copy) {
  if (offset_bytes < 0 || length_bytes < 0) return refuse(env, "the offset or the length of the model is negative"), 0;
  mote_source source = {};
  source.use_descriptor = 1;
  source.descriptor = descriptor;
  source.offset_bytes = static_cast<uint64_t>(offset_bytes);
  source.length_bytes = static_cast<uint64_t>(length_bytes);
  source.load = copy ? MOTE_LOAD_COPY : MOTE_LOAD_MAP;
  return open_model(env, engine, &source);
}

void close_model(JNIEnv* env, jclass, jlong model) {
  mote_error error = {};
  check(env, mote_model_close(handle<mote_model>(model), &error), error);
}

// Model bytes, then session bytes, as the quotes have them.
jlongArray quote(JNIEnv* env, jclass, jlong engine, jbyteArray path, jint context) {
  const Bytes text(env, path);   // ends with a zero
  mote_source source = {};
  source.struct_bytes = sizeof source;
  source.path = text.data();
  mote_session_options options = {};
  options.struct_bytes = sizeof options;
  options.context = context > 0 ? static_cast<uint32_t>(context) : 0;
  mote_quote model = {}, session = {};
  model.struct_bytes = session.struct_bytes = sizeof(mote_quote);
  mote_error error = {};
  const mote_status status =
      mote_model_quote(handle<mote_engine>(engine), &source, nullptr, &options, &model, &session, &error);
  if (!check(env, status, error)) return nullptr;
  jlongArray array = env->NewLongArray(2);
  const jlong values[2] = {static_cast<jlong>(model.total_bytes), static_cast<jlong>(session.total_bytes)};
  if (array != nullptr) env->SetLongArrayRegion(array, 0, 2, values);
  return array;
}

jintArray tokenize(JNIEnv* env, jclass, jlong model, jbyteArray text, jint flags) {
  const Bytes bytes(env, text);
  return token_array(env, [&](int32_t* tokens, size_t capacity, size_t* count, mote_error* error) {
    return mote_tokenize(handle<mote_model>(model), bytes.data(), bytes.size(), static_cast<uint32_t>(flags), {},
                         tokens, capacity, count, error);
  });
}

jbyteArray detokenize(JNIEnv* env, jclass, jlong model, jintArray ids) {
  const Ints tokens(env, ids);
  size_t size = 0;
  mote_error error = {};
  mote_status status =
      mote_detokenize(handle<mote_model>(model), tokens.data(), tokens.size(), nullptr, 0, &size, &error);
  if (status != MOTE_OK && status != MOTE_BUFFER_TOO_SMALL) return check(env, status, error), nullptr;
  if (size > INT32_MAX) return refuse(env, "the text is longer than a Java array"), nullptr;
  jbyteArray array = env->NewByteArray(static_cast<jsize>(size));
  jbyte* text = array == nullptr ? nullptr : env->GetByteArrayElements(array, nullptr);
  if (text == nullptr) return nullptr;
  status = mote_detokenize(handle<mote_model>(model), tokens.data(), tokens.size(), reinterpret_cast<char*>(text), size,
                           &size, &error);
  env->ReleaseByteArrayElements(array, text, 0);
  return check(env, status, error) ? array : nullptr;
}

// `roles` and `contents` in one byte array: the first role_ends[i] and content_ends[i] bytes end the i-th of each;
// roles end with a zero.
jintArray chat_tokens(JNIEnv* env, jclass, jlong model, jbyteArray roles, jintArray role_ends, jbyteArray contents,
                      jintArray content_ends) {
  const Bytes role_text(env, roles), content_text(env, contents);
  const Ints role_end(env, role_ends), content_end(env, content_ends);
  const size_t n = role_end.size();
  if (content_end.size() != n) return refuse(env, "there are not as many contents as roles"), nullptr;
  const MessageMemory memory(env, n);
  mote_message* messages = memory.messages();
  if (messages == nullptr) return nullptr;   // OutOfMemoryError is pending
  for (size_t i = 0; i < n; ++i) {
    const int32_t role = i == 0 ? 0 : role_end.data()[i - 1], content = i == 0 ? 0 : content_end.data()[i - 1];
    messages[i].role = role_text.data() + role;
    messages[i].content = content_text.data() + content;
    messages[i].content_bytes = static_cast<size_t>(content_end.data()[i] - content);
  }
  return token_array(env, [&](int32_t* tokens, size_t capacity, size_t* count, mote_error* error) {
    return mote_chat_tokens(handle<mote_model>(model), nullptr, messages, n, {}, tokens, capacity, count, error);
  });
}

// temperature 0: greedy. top_k, top_p and min_p as in mote.h.
jlong open_session(JNIEnv* env, jclass, jlong model, jint context, jlong seed, jfloat temperature, jint top_k,
                   jfloat top_p, jfloat min_p) {
  const mote_sampler chain[] = {{MOTE_SAMPLER_TEMPERATURE, 0, static_cast<double>(temperature), 0},
                                {MOTE_SAMPLER_TOP_K, top_k, 0, 0},
                                {MOTE_SAMPLER_TOP_P, 0, static_cast<double>(top_p), 0},
                                {MOTE_SAMPLER_MIN_P, 0, static_cast<double>(min_p), 0}};
  mote_session_options options = {};
  options.struct_bytes = sizeof options;
  options.context = context > 0 ? static_cast<uint32_t>(context) : 0;
  options.seed = static_cast<uint64_t>(seed);
  options.samplers = chain;
  options.n_samplers = sizeof chain / sizeof chain[0];
  mote_session* session = nullptr;
  mote_error error = {};
  check(env, mote_session_open(handle<mote_model>(model), &options, {}, &session, &error), error);
  return as_long(session);
}

void close_session(JNIEnv* env, jclass, jlong session) {
  mote_error error = {};
  check(env, mote_session_close(handle<mote_session>(session), &error), error);
}

void feed(JNIEnv* env, jclass, jlong session, jintArray ids) {
  const Ints tokens(env, ids);
  mote_error error = {};
  check(env, mote_feed(handle<mote_session>(session), tokens.data(), tokens.size(), nullptr, &error), error);
}

// Keeps the longest common beginning; returns how many tokens did not have to be run.
jint prompt(JNIEnv* env, jclass, jlong session, jintArray ids) {
  const Ints tokens(env, ids);
  size_t reused = 0;
  mote_error error = {};
  check(env, mote_prompt(handle<mote_session>(session), tokens.data(), tokens.size(), &reused, nullptr, &error), error);
  return static_cast<jint>(reused);
}

void rewind_to(JNIEnv* env, jclass, jlong session, jint n_tokens) {
  mote_error error = {};
  check(env,
        mote_rewind(handle<mote_session>(session), n_tokens < 0 ? SIZE_MAX : static_cast<size_t>(n_tokens), &error),
        error);
}

jint next(JNIEnv* env, jclass, jlong session) {
  int32_t token = -1;
  mote_error error = {};
  check(env, mote_next(handle<mote_session>(session), &token, &error), error);
  return token;
}

jfloatArray logits(JNIEnv* env, jclass, jlong session) {
  const float* values = nullptr;
  size_t count = 0;
  mote_error error = {};
  mote_status status = mote_step(handle<mote_session>(session), &error);
  if (status == MOTE_OK) status = mote_logits(handle<mote_session>(session), &values, &count, &error);
  if (!check(env, status, error)) return nullptr;
  jfloatArray array = env->NewFloatArray(static_cast<jsize>(count));
  if (array != nullptr) env->SetFloatArrayRegion(array, 0, static_cast<jsize>(count), values);
  return array;
}

// The next piece of text; facts [2] become its token and why it ended (a mote_finish).
jbyteArray text_next(JNIEnv* env, jclass, jlong session, jintArray facts) {
  mote_text text = {};
  text.struct_bytes = sizeof text;
  mote_error error = {};
  if (!check(env, mote_text_next(handle<mote_session>(session), &text, &error), error)) return nullptr;
  const jint values[2] = {text.token, text.finish};
  env->SetIntArrayRegion(facts, 0, 2, values);
  if (env->ExceptionCheck()) return nullptr;
  jbyteArray array = env->NewByteArray(static_cast<jsize>(text.n_bytes));
  if (array != nullptr)
    env->SetByteArrayRegion(array, 0, static_cast<jsize>(text.n_bytes), reinterpret_cast<const jbyte*>(text.bytes));
  return array;
}

void cancel(JNIEnv*, jclass, jlong session) { mote_cancel(handle<mote_session>(session)); }

jstring version(JNIEnv* env, jclass) { return env->NewStringUTF(mote_version()); }

// JNINativeMethod takes char*, from before C++ had const text.
struct Method {
  const char* name;
  const char* signature;
  void* function;
};
template <class Function>
Method method(const char* name, const char* signature, Function* function) {
  return {name, signature, reinterpret_cast<void*>(function)};
}

}   // namespace

// The only symbol that is shown.
extern "C" JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM* vm, void*) {
  JNIEnv* env = nullptr;
  if (vm->GetEnv(reinterpret_cast<void**>(&env), JNI_VERSION_1_6) != JNI_OK) return JNI_ERR;
  jclass type = env->FindClass("mote/Native");
  if (type == nullptr) return JNI_ERR;
  const Method methods[] = {
      method("version", "()Ljava/lang/String;", version),
      method("openEngine", "(I[B)J", open_engine),
      method("closeEngine", "(J)V", close_engine),
      method("quote", "(J[BI)[J", quote),
      method("openModelPath", "(J[BZ)J", open_model_path),
      method("openModelDescriptor", "(JIJJZ)J", open_model_descriptor),
      method("closeModel", "(J)V", close_model),
      method("tokenize", "(J[BI)[I", tokenize),
      method("detokenize", "(J[I)[B", detokenize),
      method("chatTokens", "(J[B[I[B[I)[I", chat_tokens),
      method("openSession", "(JIJFIFF)J", open_session),
      method("closeSession", "(J)V", close_session),
      method("feed", "(J[I)V", feed),
      method("prompt", "(J[I)I", prompt),
      method("rewind", "(JI)V", rewind_to),
      method("next", "(J)I", next),
      method("logits", "(J)[F", logits),
      method("textNext", "(J[I)[B", text_next),
      method("cancel", "(J)V", cancel),
  };
  for (const Method& each : methods) {
    const JNINativeMethod native = {const_cast<char*>(each.name), const_cast<char*>(each.signature), each.function};
    if (env->RegisterNatives(type, &native, 1) != JNI_OK) return JNI_ERR;
  }
  return JNI_VERSION_1_6;
}
