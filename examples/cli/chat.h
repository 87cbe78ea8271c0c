// A conversation and the session that carries it.
#pragma once
#include <string>
#include <vector>

#include "examples/cli/run_options.h"

namespace cli {

class Chat {
 public:
  explicit Chat(const RunOptions& options);   // which must outlive it

  // Asks one question and writes the answer. Ctrl-C ends it; what was said until then stays.
  void turn(const std::string& question);

  // Back to the words of the system. The session begins anew: the same questions get the same answers.
  void reset();
  // See chat_file.h. Failures leave the chat as it was.
  void save(const std::string& path);
  void load(const std::string& path);
  void tell_stats() const;

  mote_session* session() const { return session_.get(); }

 private:
  std::vector<int32_t> tokens_of(const std::vector<Message>& messages, bool asks = true) const;
  uint32_t tokens_that_stay() const;
  void answer(const std::string& question);
  std::vector<int32_t> fit(std::vector<Message>* asked) const;
  size_t answer_room() const;
  size_t drop_oldest(std::vector<Message>* asked) const;
  bool feed(const std::vector<int32_t>& ids);
  size_t n_history() const;
  size_t first_turn(const std::vector<Message>& messages) const;

  const RunOptions& options_;
  Opened opened_;
  SamplerChain chain_;
  std::vector<const char*> stops_;
  mote_session_options session_options_{};
  Session session_;
  uint32_t context_ = 0;
  std::vector<Message> messages_;   // the system's words, if any, then questions and answers
  // Of the last answer, for /stats.
  Answer last_;
  size_t prompt_tokens_ = 0, reused_tokens_ = 0;
  double prompt_ms_ = 0;
};

}   // namespace cli
