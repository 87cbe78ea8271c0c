// A chat in a file, as /save writes and /load reads it: what was said, and the snapshot of the session that said it.
//
//   bytes  what, little-endian
//   12     "mote chat 1\n"
//   4      number of messages
//   8      bytes of the messages
//   8      bytes of the snapshot
//   8      FNV-1a of the messages' bytes
//   ...    each message: its role (1 byte: 0 system, 1 user, 2 assistant), 8 bytes of length, its bytes
//   ...    the snapshot, as mote_snapshot wrote it, with a digest of its own
//
// The words are the conversation: each turn is made of them anew. The snapshot spares running them, and has the seed
// and the index of the next token, so that going on gives the same answers.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "examples/cli/input.h"

namespace cli {

struct ChatFile {
  std::vector<Message> messages;   // at most one of the system, then questions and answers in turn
  std::vector<char> snapshot;
};

// Written as a whole or not at all, at first readable by the user alone. Failure: also where something is there that is
// no chat of ours.
void write_chat_file(const std::string& path, const ChatFile& chat);
// Failure, one sentence, for everything that write_chat_file would not have written, and for a snapshot of more than
// `most_snapshot_bytes`.
ChatFile read_chat_file(const std::string& path, uint64_t most_snapshot_bytes);

}   // namespace cli
