#include "platform/cpu_features.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#if defined(__linux__)
#include <sys/auxv.h>
#endif

namespace mote {
namespace {

constexpr size_t kPathBytes = 1024;

// False if the path does not fit.
__attribute__((format(printf, 2, 3))) bool write_path(char (&to)[kPathBytes], const char* pattern, ...) {
  va_list values;
  va_start(values, pattern);
  const int length = std::vsnprintf(to, kPathBytes, pattern, values);
  va_end(values);
  return length >= 0 && static_cast<size_t>(length) < kPathBytes;
}

int open_text(const char* path) {
  int file;
  do {
    file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (file < 0 && errno == EINTR);   // a container may serve /proc and /sys from a program
  return file;
}

// A small file as text, at most capacity - 1 bytes of it. What cannot be read to its end counts as not there: half of a
// number is another number.
bool read_text(const char* path, char* text, size_t capacity) {
  const int file = open_text(path);
  if (file < 0) return false;
  size_t length = 0;
  bool failed = false;
  while (length + 1 < capacity) {
    const ssize_t got = read(file, text + length, capacity - 1 - length);
    if (got < 0 && errno == EINTR) continue;
    failed = got < 0;
    if (got <= 0) break;
    length += static_cast<size_t>(got);
  }
  close(file);
  text[length] = 0;
  return length > 0 && !failed;
}

// Calls use(line) for every line of a file; lines too long for the buffer are left out.
template <class Use>
void for_each_line(const char* path, Use&& use) {
  const int file = open_text(path);
  if (file < 0) return;
  char buffer[2048];
  size_t length = 0;
  bool too_long = false, failed = false;
  while (true) {
    const ssize_t got = read(file, buffer + length, sizeof(buffer) - 1 - length);
    if (got < 0 && errno == EINTR) continue;
    failed = got < 0;
    if (got <= 0) break;
    length += static_cast<size_t>(got);
    char* line = buffer;
    while (char* end = static_cast<char*>(std::memchr(line, '\n', length - static_cast<size_t>(line - buffer)))) {
      *end = 0;
      if (!too_long) use(line);
      too_long = false;
      line = end + 1;
    }
    length -= static_cast<size_t>(line - buffer);
    std::memmove(buffer, line, length);
    if (length == sizeof(buffer) - 1) {
      too_long = true;
      length = 0;
    }
  }
  close(file);
  buffer[length] = 0;
  if (length > 0 && !too_long && !failed) use(buffer);
}

// A decimal number with nothing but a space, a newline or the end after it.
bool parse_number(const char** text, uint64_t* value) {
  const char* at = *text;
  if (*at < '0' || *at > '9') return false;
  for (*value = 0; *at >= '0' && *at <= '9'; ++at) {
    if (*value > UINT64_MAX / 10 - 1) return false;
    *value = *value * 10 + static_cast<uint64_t>(*at - '0');
  }
  if (*at != 0 && *at != ' ' && *at != '\n') return false;
  *text = at;
  return true;
}

bool read_number(const char* path, uint64_t* value) {
  char text[64];
  const char* at = text;
  return read_text(path, text, sizeof text) && parse_number(&at, value);
}

// Whole CPUs in one group's quota, or 0 if it grants no less than everything.
uint32_t quota_of_group(const char* folder, bool version2) {
  char path[kPathBytes], text[128];
  uint64_t quota = 0, period = 0;
  if (version2) {
    if (!write_path(path, "%s/cpu.max", folder) || !read_text(path, text, sizeof text)) return 0;
    const char* at = text;   // "max 100000" or "150000 100000"
    if (!parse_number(&at, &quota) || *at != ' ') return 0;
    if (++at, !parse_number(&at, &period)) return 0;
  } else {
    if (!write_path(path, "%s/cpu.cfs_quota_us", folder) || !read_number(path, &quota)) return 0;   // -1: no limit
    if (!write_path(path, "%s/cpu.cfs_period_us", folder) || !read_number(path, &period)) return 0;
  }
  if (quota == 0 || period == 0) return 0;
  const uint64_t cpus = quota / period;
  return cpus == 0 ? 1 : cpus > CpuSet::kCapacity ? 0 : static_cast<uint32_t>(cpus);
}

// One hierarchy: where it is mounted, which group the mount shows as its root, and which group the process is in.
struct Hierarchy {
  char mount[kPathBytes] = "", mount_root[kPathBytes] = "", group[kPathBytes] = "";
  bool found = false;
};

bool lists_word(const char* list, const char* word) {
  const size_t length = std::strlen(word);
  for (const char* at = list; at != nullptr; at = std::strchr(at, ',')) {
    if (*at == ',') ++at;
    if (std::strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == 0)) return true;
  }
  return false;
}

// Splits in place; returns how many fields there are, at most `capacity`.
uint32_t split(char* line, char separator, char** fields, uint32_t capacity) {
  uint32_t count = 0;
  while (count < capacity) {
    fields[count++] = line;
    char* end = std::strchr(line, separator);
    if (end == nullptr || count == capacity) break;
    *end = 0;
    line = end + 1;
  }
  return count;
}

void copy_path(char (&to)[kPathBytes], const char* from) { write_path(to, "%s", from); }

// proc(5), /proc/pid/mountinfo: id parent major:minor root mount-point options [optional...] - type source options.
void find_mount(char* line, bool version2, Hierarchy* h) {
  char* rest = std::strstr(line, " - ");
  if (rest == nullptr || h->found) return;
  *rest = 0;
  char *left[6], *right[3];
  if (split(line, ' ', left, 6) < 6 || split(rest + 3, ' ', right, 3) < 3) return;
  if (std::strcmp(right[0], version2 ? "cgroup2" : "cgroup") != 0) return;
  if (!version2 && !lists_word(right[2], "cpu")) return;
  copy_path(h->mount_root, left[3]);
  copy_path(h->mount, left[4]);
  h->found = true;
}

// cgroups(7), /proc/pid/cgroup: id:controllers:group; version 2 is "0::group".
void find_group(char* line, bool version2, Hierarchy* h) {
  char* fields[3];
  if (split(line, ':', fields, 3) < 3) return;
  const bool match = version2 ? std::strcmp(fields[0], "0") == 0 && fields[1][0] == 0 : lists_word(fields[1], "cpu");
  if (match) copy_path(h->group, fields[2]);
}

uint32_t tightest_quota(const char* root, bool version2) {
  char path[kPathBytes];
  Hierarchy h;
  if (!write_path(path, "%s/proc/self/mountinfo", root)) return 0;
  for_each_line(path, [&](char* line) { find_mount(line, version2, &h); });
  if (!write_path(path, "%s/proc/self/cgroup", root)) return 0;
  for_each_line(path, [&](char* line) { find_group(line, version2, &h); });
  if (!h.found) return 0;
  // In a container the mount may show only a part of the tree: /docker/abc is its root, the process in /docker/abc/d.
  const char* group = h.group;
  const size_t shown = std::strcmp(h.mount_root, "/") == 0 ? 0 : std::strlen(h.mount_root);
  if (std::strncmp(group, h.mount_root, shown) == 0 && (group[shown] == '/' || group[shown] == 0))
    group += shown;
  else
    group = "";
  const size_t stem = std::strlen(root) + std::strlen(h.mount);
  if (!write_path(path, "%s%s%s", root, h.mount, group)) return 0;
  uint32_t tightest = 0;
  while (true) {
    const uint32_t quota = quota_of_group(path, version2);
    if (quota != 0 && (tightest == 0 || quota < tightest)) tightest = quota;
    char* slash = std::strrchr(path, '/');
    if (slash == nullptr || static_cast<size_t>(slash - path) < stem) return tightest;
    *slash = 0;
  }
}

// The largest value of /sys/devices/system/cpu/cpuN/<name> over the set, or 0 if any of them has none.
uint64_t largest_value(const char* root, const CpuSet& set, const char* name, uint64_t (&values)[CpuSet::kCapacity]) {
  uint64_t largest = 0;
  for (uint32_t cpu = 0; cpu < CpuSet::kCapacity; ++cpu) {
    if (!set.has(cpu)) continue;
    char path[kPathBytes];
    if (!write_path(path, "%s/sys/devices/system/cpu/cpu%u/%s", root, cpu, name)) return 0;
    if (!read_number(path, &values[cpu]) || values[cpu] == 0) return 0;
    if (values[cpu] > largest) largest = values[cpu];
  }
  return largest;
}

// The lowest-numbered member of the set that shares a core with `cpu`.
uint32_t first_sibling(const char* root, const CpuSet& set, uint32_t cpu) {
  char path[kPathBytes], text[256];
  CpuSet siblings;
  if (!write_path(path, "%s/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", root, cpu)) return cpu;
  if (!read_text(path, text, sizeof text) || !parse_cpu_list(text, &siblings)) return cpu;
  for (uint32_t other = 0; other < cpu; ++other)
    if (siblings.has(other) && set.has(other)) return other;
  return cpu;
}

CpuSet allowed_cpus() {
  CpuSet set;
#if defined(__linux__)
  cpu_set_t mask[CpuSet::kCapacity / CPU_SETSIZE > 0 ? CpuSet::kCapacity / CPU_SETSIZE : 1];
  CPU_ZERO_S(sizeof mask, mask);
  if (sched_getaffinity(0, sizeof mask, mask) == 0) {
    for (uint32_t cpu = 0; cpu < CpuSet::kCapacity; ++cpu)
      if (CPU_ISSET_S(cpu, sizeof mask, mask)) set.add(cpu);
    return set;
  }
#endif
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  for (long cpu = 0; cpu < online && cpu < static_cast<long>(CpuSet::kCapacity); ++cpu)
    set.add(static_cast<uint32_t>(cpu));
  return set;
}

}   // namespace

uint32_t read_cgroup_quota(const char* root) {
  const uint32_t v1 = tightest_quota(root, false), v2 = tightest_quota(root, true);
  return v1 == 0 ? v2 : v2 == 0 || v1 < v2 ? v1 : v2;   // both may be mounted, one of them holds the cpu controller
}

uint32_t read_performance_cores(const char* root, const CpuSet& allowed) {
  char path[kPathBytes], text[1024];
  CpuSet set = allowed, online;
  if (!write_path(path, "%s/sys/devices/system/cpu/online", root)) return 0;
  if (!read_text(path, text, sizeof text) || !parse_cpu_list(text, &online)) return 0;
  for (uint32_t i = 0; i < CpuSet::kCapacity / 64; ++i) set.words[i] &= online.words[i];

  uint64_t values[CpuSet::kCapacity] = {};
  uint64_t least = 0;
  if (const uint64_t largest = largest_value(root, set, "cpu_capacity", values); largest != 0) {
    least = largest - largest / 2;
  } else if (const uint64_t fastest = largest_value(root, set, "cpufreq/cpuinfo_max_freq", values); fastest != 0) {
    least = fastest - fastest / 5;
  }
  uint32_t cores = 0;
  for (uint32_t cpu = 0; cpu < CpuSet::kCapacity; ++cpu)
    if (set.has(cpu) && (least == 0 || values[cpu] >= least) && first_sibling(root, set, cpu) == cpu) ++cores;
  return cores;
}

CpuLimits probe_cpu_limits() {
  const CpuSet allowed = allowed_cpus();
  return {allowed.count(), read_cgroup_quota(""), read_performance_cores("", allowed)};
}

bool read_hwcap(uint64_t* hwcap, uint64_t* hwcap2) {
#if defined(__linux__)
  *hwcap = getauxval(AT_HWCAP);
  *hwcap2 = getauxval(AT_HWCAP2);
  return true;
#else
  *hwcap = *hwcap2 = 0;
  return false;
#endif
}

}   // namespace mote
