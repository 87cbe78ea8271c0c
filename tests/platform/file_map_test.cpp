#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "platform/file_map.h"
#include "tests/platform/temporary_folder.h"
#include "tests/support/emulated.h"

using mote::close_file;
using mote::FileMap;
using mote::FileRange;
using mote::PlatformError;
using mote::test::TemporaryFolder;

namespace {

std::string pattern(size_t bytes) {
  std::string text(bytes, 0);
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 131 + i / 251);
  return text;
}

std::string view(const FileMap& map) {
  return {static_cast<const char*>(map.data), static_cast<size_t>(map.size_bytes)};
}

}   // namespace

TEST_CASE("a file is mapped and read whole", "[platform][files]") {
  TemporaryFolder folder;
  const std::string text = pattern(300'001), path = folder.write("model.gguf", text);
  FileRange file;
  REQUIRE(mote::open_file(path.c_str(), &file).ok());
  CHECK(file.size_bytes == text.size());
  CHECK((fcntl(file.descriptor, F_GETFD) & FD_CLOEXEC) != 0);
  FileMap map;
  REQUIRE(mote::map_file(file, &map).ok());
  std::string copy(text.size(), 0);
  REQUIRE(mote::read_file(file, 0, copy.data(), copy.size()).ok());
  CHECK(copy == text);
  close_file(&file);
  CHECK(file.descriptor == -1);
  CHECK(view(map) == text);   // the map outlives the file
  mote::unmap_file(&map);
  CHECK(map.data == nullptr);
}

TEST_CASE("a map can be brought into memory, as far as it still is one", "[platform][files]") {
  TemporaryFolder folder;
  const std::string text = pattern(3'000'001), path = folder.write("model.gguf", text);
  FileMap nothing;
  mote::prefault_map(nothing);
  CHECK(nothing.data == nullptr);
  FileRange file;
  REQUIRE(mote::open_file(path.c_str(), &file).ok());
  FileMap map;
  REQUIRE(mote::map_file(file, &map).ok());
  mote::prefault_map(map);
  CHECK(view(map) == text);
#if defined(__linux__) && defined(MADV_POPULATE_READ)
  // Of a file that became shorter the system says so, where it can be asked, and nobody touches what is gone.
  if (madvise(map.pages, 1, MADV_POPULATE_READ) == 0) {
    REQUIRE(truncate(path.c_str(), 1'000'000) == 0);
    mote::prefault_map(map);
    CHECK(std::memcmp(map.data, text.data(), 1'000'000) == 0);
  }
#endif
  mote::unmap_file(&map);
  close_file(&file);
}

TEST_CASE("a range of a borrowed descriptor starts at any byte", "[platform][files]") {
  TemporaryFolder folder;
  const std::string text = pattern(200'000), path = folder.write("assets", text);
  const int descriptor = open(path.c_str(), O_RDONLY);
  REQUIRE(descriptor >= 0);
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (size_t offset : {size_t{0}, size_t{1}, page - 1, page, page + 1, 3 * page - 7, text.size() - 1, text.size()}) {
    for (size_t length : {size_t{0}, size_t{1}, page, text.size()}) {
      if (length > text.size() - offset) length = text.size() - offset;
      CAPTURE(offset, length);
      FileRange file;
      REQUIRE(mote::open_descriptor(descriptor, offset, length, &file).ok());
      FileMap map;
      REQUIRE(mote::map_file(file, &map).ok());
      CHECK(view(map) == text.substr(offset, length));
      std::string copy(length / 2, 0);
      REQUIRE(mote::read_file(file, length - length / 2, copy.data(), copy.size()).ok());
      CHECK(copy == text.substr(offset + length - length / 2, length / 2));
      mote::unmap_file(&map);
      close_file(&file);
    }
  }
  FileRange rest;
  REQUIRE(mote::open_descriptor(descriptor, 17, mote::kToEndOfFile, &rest).ok());
  CHECK(rest.size_bytes == text.size() - 17);
  close_file(&rest);
  CHECK(fcntl(descriptor, F_GETFD) >= 0);       // borrowed: still open
  CHECK(lseek(descriptor, 0, SEEK_CUR) == 0);   // and not moved
  close(descriptor);
}

TEST_CASE("ranges outside the file are refused", "[platform][files]") {
  TemporaryFolder folder;
  const std::string path = folder.write("small", pattern(100));
  const int descriptor = open(path.c_str(), O_RDONLY);
  FileRange file;
  CHECK_FALSE(mote::open_descriptor(descriptor, 101, 0, &file).ok());
  CHECK_FALSE(mote::open_descriptor(descriptor, 1, 100, &file).ok());
  CHECK_FALSE(mote::open_descriptor(descriptor, UINT64_MAX, mote::kToEndOfFile, &file).ok());
  CHECK_FALSE(mote::open_descriptor(descriptor, 2, UINT64_MAX - 1, &file).ok());
  REQUIRE(mote::open_descriptor(descriptor, 10, 50, &file).ok());
  char byte[2];
  CHECK(mote::read_file(file, 49, byte, 1).ok());
  CHECK_FALSE(mote::read_file(file, 49, byte, 2).ok());
  CHECK_FALSE(mote::read_file(file, UINT64_MAX, byte, 2).ok());
  CHECK_FALSE(mote::read_file(file, 51, byte, 0).ok());
  close(descriptor);
}

TEST_CASE("what is not a regular file is refused in words", "[platform][files]") {
  TemporaryFolder folder;
  const std::string fifo = folder.path() + "/fifo", socket_path = folder.path() + "/socket";
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, socket_path.c_str());
  REQUIRE(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  const std::string plain = folder.write("plain", "x");
  const struct {
    std::string path;
    const char* words;
  } rows[] = {{folder.path(), "is a directory, not a file"},
              {fifo, "is a pipe, not a regular file"},   // must not wait for a writer
              {"/dev/null", "is a device, not a regular file"},
              {socket_path, "is a socket or a device without a driver, not a file"},
              {folder.path() + "/none", "does not exist"},
              {plain + "/below", "has a path whose folder is not a folder"},
              {"", "has an empty path"},
              {std::string(5000, 'a'), "has a name that is too long"}};
  for (const auto& row : rows) {
    FileRange file;
    const PlatformError error = mote::open_file(row.path.c_str(), &file);
    CAPTURE(row.path);
    REQUIRE_FALSE(error.ok());
    CHECK(std::string(error.what) == row.words);
    CHECK(error.code != 0);
    CHECK(file.descriptor == -1);
  }
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  FileRange file;
  CHECK(std::string(mote::open_descriptor(ends[0], 0, 1, &file).what) == "is a pipe, not a regular file");
  CHECK(std::string(mote::open_descriptor(-1, 0, 1, &file).what) == "is not an open descriptor");
  const int writer = open(plain.c_str(), O_WRONLY);
  CHECK(std::string(mote::open_descriptor(writer, 0, 1, &file).what) == "is open for writing alone");
  for (int descriptor : {ends[0], ends[1], writer, listener}) close(descriptor);
}

TEST_CASE("an empty file maps to nothing", "[platform][files]") {
  TemporaryFolder folder;
  const std::string path = folder.write("empty", "");
  FileRange file;
  REQUIRE(mote::open_file(path.c_str(), &file).ok());
  FileMap map;
  CHECK(mote::map_file(file, &map).ok());
  CHECK(map.data == nullptr);
  CHECK(map.size_bytes == 0);
  mote::unmap_file(&map);
  close_file(&file);
}

TEST_CASE("a file that became shorter is an error to readers", "[platform][files]") {
  TemporaryFolder folder;
  const std::string path = folder.write("shrinks", pattern(1000));
  FileRange file;
  REQUIRE(mote::open_file(path.c_str(), &file).ok());
  REQUIRE(truncate(path.c_str(), 500) == 0);
  char bytes[1000];
  const PlatformError error = mote::read_file(file, 0, bytes, 1000);
  CHECK(error.code == EIO);
  CHECK(std::string(error.what) == "became shorter while it was read");
  close_file(&file);
}

TEST_CASE("offsets beyond 4 GiB reach the right bytes", "[platform][files]") {
  TemporaryFolder folder;
  const std::string path = folder.write("sparse", "");
  const uint64_t far = (uint64_t{5} << 30) + 123;
  REQUIRE(truncate(path.c_str(), static_cast<off_t>(far + 4)) == 0);
  const int descriptor = open(path.c_str(), O_RDWR);
  REQUIRE(pwrite(descriptor, "mote", 4, static_cast<off_t>(far)) == 4);
  FileRange file;
  REQUIRE(mote::open_descriptor(descriptor, far, 4, &file).ok());
  std::string bytes(4, 0);
  CHECK(mote::read_file(file, 0, bytes.data(), 4).ok());
  CHECK(bytes == "mote");
  FileMap map;
  REQUIRE(mote::map_file(file, &map).ok());
  // qemu 7.2 makes bytes of the pages that a 32-bit program asks for, in 32 bits.
  if (!mote::test::is_emulated() || sizeof(void*) == 8) CHECK(view(map) == "mote");
  mote::unmap_file(&map);
  close(descriptor);
}
