// Whether this program is built with the address or the thread sanitizer: they take memory, stack and time of their
// own, and do not follow forks of processes with threads.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)   // gcc
#define MOTE_TEST_SANITIZED 1
#elif defined(__has_feature)   // clang
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MOTE_TEST_SANITIZED 1
#endif
#endif
#ifndef MOTE_TEST_SANITIZED
#define MOTE_TEST_SANITIZED 0
#endif

namespace mote::test {

inline constexpr bool kSanitized = MOTE_TEST_SANITIZED != 0;

}   // namespace mote::test
