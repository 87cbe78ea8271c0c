// Memory that nobody planned for, because it is wanted only when a backend fails: first what the caller handed over
// beyond the quote, then pages of the platform.
#pragma once
#include <span>

#include "core/base/arena.h"
#include "platform/memory.h"

namespace mote {

class Reserve {
 public:
  struct Block {
    std::byte* at = nullptr;
    uint64_t bytes = 0;
    bool pages = false;
  };

  Reserve() = default;
  explicit Reserve(std::span<std::byte> rest) : rest_(rest) {}   // at a multiple of 64

  // `what` names the thing in the sentence.
  Result<Block> take(uint64_t bytes, std::string_view what) {
    bytes = round_up(bytes, kArenaAlignment);
    if (bytes <= rest_.size()) {
      const Block block{rest_.data(), bytes, false};
      rest_ = rest_.subspan(static_cast<size_t>(bytes));
      return block;
    }
    void* pages = allocate_pages(bytes);
    if (pages == nullptr)
      return Status::error(Code::out_of_memory, "{} needs {} bytes of memory, which the platform does not give", what,
                           bytes);
    return Block{static_cast<std::byte*>(pages), bytes, true};
  }

  // What lies before the rest joins it again. Of other blocks of the caller's nothing more is made.
  void give_back(const Block& block) {
    if (block.pages)
      free_pages(block.at, block.bytes);
    else if (block.at != nullptr && block.at + block.bytes == rest_.data())
      rest_ = {block.at, rest_.size() + static_cast<size_t>(block.bytes)};
  }

 private:
  std::span<std::byte> rest_;
};

}   // namespace mote
