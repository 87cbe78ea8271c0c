// Thread counts from made-up file trees.
#include <sched.h>

#include <catch2/catch_test_macros.hpp>

#include "platform/cpu_features.h"
#include "tests/platform/temporary_folder.h"

using mote::CpuSet;
using mote::test::TemporaryFolder;

namespace {

CpuSet first_cpus(uint32_t n) {
  CpuSet set;
  for (uint32_t i = 0; i < n; ++i) set.add(i);
  return set;
}

void use_version2(const TemporaryFolder& root, const std::string& group, const std::string& mount_root = "/") {
  root.write("proc/self/mountinfo",
             "22 1 0:20 / /proc rw,nosuid - proc proc rw\n"
             "30 23 0:26 " +
                 mount_root + " /sys/fs/cgroup rw,nosuid shared:4 master:1 - cgroup2 cgroup2 rw,nsdelegate\n");
  root.write("proc/self/cgroup", "0::" + group + "\n");
}

void use_version1(const TemporaryFolder& root, const std::string& group, const std::string& mount_root = "/") {
  root.write("proc/self/mountinfo",
             "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
             "34 31 0:31 " +
                 mount_root + " /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n");
  root.write("proc/self/cgroup", "5:cpuset:/elsewhere\n4:cpu,cpuacct:" + group + "\n1:name=systemd:/user\n");
}

uint32_t quota(const TemporaryFolder& root) { return mote::read_cgroup_quota(root.path().c_str()); }

struct Core {
  const char* capacity;    // nullptr: no file
  const char* frequency;   // in kHz
  const char* siblings;
};
uint32_t performance_cores(std::initializer_list<Core> cores, const CpuSet& allowed, const char* online) {
  TemporaryFolder root;
  if (online != nullptr) root.write("sys/devices/system/cpu/online", online);
  uint32_t index = 0;
  for (const Core& core : cores) {
    const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(index++) + "/";
    if (core.capacity != nullptr) root.write(folder + "cpu_capacity", core.capacity);
    if (core.frequency != nullptr) root.write(folder + "cpufreq/cpuinfo_max_freq", core.frequency);
    if (core.siblings != nullptr) root.write(folder + "topology/thread_siblings_list", core.siblings);
  }
  return mote::read_performance_cores(root.path().c_str(), allowed);
}

}   // namespace

TEST_CASE("quotas of version 2 are rounded down, the tightest ancestor counts", "[platform][cpu]") {
  TemporaryFolder root;
  use_version2(root, "/user/app");
  CHECK(quota(root) == 0);   // no files at all
  root.write("sys/fs/cgroup/user/app/cpu.max", "max 100000\n");
  CHECK(quota(root) == 0);
  root.write("sys/fs/cgroup/user/app/cpu.max", "400000 100000\n");
  CHECK(quota(root) == 4);
  root.write("sys/fs/cgroup/user/cpu.max", "299999 100000\n");
  CHECK(quota(root) == 2);
  root.write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  CHECK(quota(root) == 1);   // half a CPU is still one thread
}

TEST_CASE("quotas of version 1 are read from the cpu controller", "[platform][cpu]") {
  TemporaryFolder root;
  use_version1(root, "/docker/abc/inner", "/docker/abc");
  CHECK(quota(root) == 0);
  const std::string mount = "sys/fs/cgroup/cpu,cpuacct/";
  root.write(mount + "cpu.cfs_quota_us", "350000\n");
  root.write(mount + "cpu.cfs_period_us", "100000\n");
  CHECK(quota(root) == 3);
  root.write(mount + "inner/cpu.cfs_quota_us", "-1\n");
  root.write(mount + "inner/cpu.cfs_period_us", "100000\n");
  CHECK(quota(root) == 3);
  root.write(mount + "inner/cpu.cfs_quota_us", "100000\n");
  root.write(mount + "inner/cpu.cfs_period_us", "50000\n");
  CHECK(quota(root) == 2);
}

TEST_CASE("with both versions mounted the tighter quota counts", "[platform][cpu]") {
  TemporaryFolder root;
  root.write("proc/self/mountinfo",
             "30 23 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
             "34 31 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n");
  root.write("proc/self/cgroup", "4:cpu:/app\n0::/app\n");
  root.write("sys/fs/cgroup/cpu/app/cpu.cfs_quota_us", "300000\n");
  CHECK(quota(root) == 0);   // a quota without its period
  root.write("sys/fs/cgroup/cpu/app/cpu.cfs_period_us", "100000\n");
  CHECK(quota(root) == 3);
  root.write("sys/fs/cgroup/unified/app/cpu.max", "200000 100000\n");
  CHECK(quota(root) == 2);
  root.write("sys/fs/cgroup/unified/app/cpu.max", "900000 100000\n");
  CHECK(quota(root) == 3);
}

TEST_CASE("fractions are rounded down at every depth, and whole CPUs above them do not help", "[platform][cpu]") {
  const struct {
    const char *outer, *middle, *inner;
    uint32_t expected;
  } rows[] = {
      {"400000 100000", "250000 100000", "350000 100000", 2}, {"max 100000", "199999 100000", "max 100000", 1},
      {"150000 100000", "max 100000", "max 100000", 1},       {"800000 100000", "800000 100000", "10000 100000", 1},
      {"30000 10000", "broken", "500000 100000", 3},          {"", "", "700000 200000", 3}};
  for (const auto& row : rows) {
    TemporaryFolder root;
    use_version2(root, "/a/b");
    root.write("sys/fs/cgroup/cpu.max", row.outer);
    root.write("sys/fs/cgroup/a/cpu.max", row.middle);
    root.write("sys/fs/cgroup/a/b/cpu.max", row.inner);
    CAPTURE(row.outer, row.middle, row.inner);
    CHECK(quota(root) == row.expected);
  }
}

TEST_CASE("a group outside what is mounted leaves the mount itself", "[platform][cpu]") {
  TemporaryFolder root;
  use_version1(root, "/other/place", "/docker/abc");
  root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  CHECK(quota(root) == 2);
}

TEST_CASE("broken quotas are skipped", "[platform][cpu]") {
  for (const char* text : {"", "\n", "max", "100000", "100000 0", "0 100000", "-5 100000", "1e5 100000", "abc 100000",
                           "99999999999999999999999 100000", "100000 xyz", "900000000000 1"}) {
    TemporaryFolder root;
    use_version2(root, "/a");
    root.write("sys/fs/cgroup/a/cpu.max", text);
    CAPTURE(text);
    CHECK(quota(root) == 0);
    root.write("sys/fs/cgroup/cpu.max", "200000 100000");
    CHECK(quota(root) == 2);
  }
  TemporaryFolder root;
  CHECK(quota(root) == 0);   // no /proc
  root.write("proc/self/mountinfo", std::string(10'000, 'x') + "\nshort\n - cgroup2\n1 2 - cgroup2 a b\n");
  root.write("proc/self/cgroup", "0:\n::\n:::\n" + std::string(5000, ':'));
  CHECK(quota(root) == 0);
}

TEST_CASE("performance cores are those with half the largest capacity", "[platform][cpu]") {
  const Core big{"1024\n", nullptr, nullptr}, middle{"760\n", nullptr, nullptr}, little{"325\n", nullptr, nullptr};
  CHECK(performance_cores({little, little, little, little, big, big, big, big}, first_cpus(8), "0-7\n") == 4);
  CHECK(performance_cores({little, little, little, little, middle, middle, middle, big}, first_cpus(8), "0-7\n") == 4);
  // Only little ones are allowed: they are the fast ones then.
  CHECK(performance_cores({little, little, big}, first_cpus(2), "0-2\n") == 2);
  CHECK(performance_cores({big, big, little, little}, first_cpus(4), "0,2-3\n") == 1);   // one big core is offline
}

TEST_CASE("four fast and four slow, one fastest with three and four, hyperthreads, offline: each chooses its threads",
          "[platform][cpu]") {
  const Core fast{"1024", nullptr, "x"}, slow{"350", nullptr, nullptr};
  const Core prime{"1024", nullptr, nullptr}, gold{"870", nullptr, nullptr};
  const uint32_t four_four = performance_cores({slow, slow, slow, slow, fast, fast, fast, fast}, first_cpus(8), "0-7");
  CHECK(mote::default_threads({8, 0, four_four}) == 4);
  const uint32_t one_three_four =
      performance_cores({slow, slow, slow, slow, gold, gold, gold, prime}, first_cpus(8), "0-7");
  CHECK(mote::default_threads({8, 0, one_three_four}) == 4);
  CHECK(mote::default_threads({8, 3, one_three_four}) == 3);   // the quota is tighter
  // Two fast cores with hyperthreads and four slow ones without: 0 and 1, 2 and 3 share a core.
  const Core a{nullptr, "5200000", "0-1"}, b{nullptr, "5200000", "2-3"}, e{nullptr, "3800000", nullptr};
  CHECK(performance_cores({a, a, b, b, e, e, e, e}, first_cpus(8), "0-7") == 2);
  CHECK(performance_cores({a, a, b, b, e, e, e, e}, first_cpus(8), "0,2-7") == 2);   // a hyperthread is offline
  CHECK(performance_cores({a, a, b, b, e, e, e, e}, first_cpus(8), "2-7") == 1);     // and now its core
  // A CPU without any file: the rates of the others say nothing any more.
  CHECK(performance_cores({a, a, b, b, e, e, e, {nullptr, nullptr, nullptr}}, first_cpus(8), "0-7") == 6);
}

TEST_CASE("clock rates stand in for capacities", "[platform][cpu]") {
  const Core fast{nullptr, "5100000\n", nullptr}, favoured{nullptr, "5300000\n", nullptr},
      efficient{nullptr, "3900000\n", nullptr};
  CHECK(performance_cores({fast, favoured, efficient, efficient}, first_cpus(4), "0-3\n") == 2);
  // One without a rate: nothing is known, so every core counts.
  CHECK(performance_cores({fast, efficient, {nullptr, nullptr, nullptr}}, first_cpus(3), "0-2\n") == 3);
}

TEST_CASE("threads of one core count once", "[platform][cpu]") {
  const Core a{"1024", nullptr, "0,2"}, b{"1024", nullptr, "1,3"};
  CHECK(performance_cores({a, b, a, b}, first_cpus(4), "0-3") == 2);
  CHECK(performance_cores({{nullptr, nullptr, "0-1"}, {nullptr, nullptr, "0-1"}}, first_cpus(2), "0-1") == 1);
  CpuSet second;
  second.add(1);
  CHECK(performance_cores({{nullptr, nullptr, "0-1"}, {nullptr, nullptr, "0-1"}}, second, "0-1") == 1);
  CHECK(performance_cores({{nullptr, nullptr, "rubbish"}, {nullptr, nullptr, ""}}, first_cpus(2), "0-1") == 2);
}

TEST_CASE("without a list of CPUs nothing is known", "[platform][cpu]") {
  CHECK(performance_cores({{"1024", nullptr, nullptr}}, first_cpus(1), nullptr) == 0);
  CHECK(performance_cores({{"1024", nullptr, nullptr}}, first_cpus(1), "none") == 0);
}

TEST_CASE("lists of CPUs are read strictly", "[platform][cpu]") {
  CpuSet set;
  CHECK((mote::parse_cpu_list("0-3,8,10-11\n", &set) && set.count() == 7 && set.has(8) && !set.has(9)));
  CHECK((mote::parse_cpu_list("5", &set) && set.count() == 1));
  CHECK((mote::parse_cpu_list("1000-2000", &set) && set.count() == 24));   // more than the set holds is left out
  for (const char* text : {"", "-", "3-1", "1,", ",1", "1-", "a", "1 2", "99999999999999999999", "0-3,x", "1\n2"}) {
    CAPTURE(text);
    CHECK_FALSE(mote::parse_cpu_list(text, &set));
  }
}

TEST_CASE("the default is the least known limit", "[platform][cpu]") {
  CHECK(mote::default_threads({0, 0, 0}) == 1);
  CHECK(mote::default_threads({8, 0, 0}) == 8);
  CHECK(mote::default_threads({8, 2, 4}) == 2);
  CHECK(mote::default_threads({8, 0, 4}) == 4);
  CHECK(mote::default_threads({1, 2, 4}) == 1);
}

TEST_CASE("the probe sees the affinity of this process", "[platform][cpu]") {
  const mote::CpuLimits limits = mote::probe_cpu_limits();
  cpu_set_t mask;
  REQUIRE(sched_getaffinity(0, sizeof mask, &mask) == 0);
  CHECK(limits.affinity == static_cast<uint32_t>(CPU_COUNT(&mask)));
  CHECK(limits.performance_cores <= limits.affinity);
  CHECK(mote::default_threads(limits) >= 1);
}
