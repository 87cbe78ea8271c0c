// Recognises what people hand over in place of a model, so that the sentence says what to do about it.
#include "core/base/slice.h"
#include "core/gguf/header_reader.h"

namespace mote::gguf {
namespace {

using namespace std::string_view_literals;

struct Signature {
  std::string_view start;
  std::string_view sentence;
};
constexpr Signature kSignatures[] = {
    {"version https://git-lfs"sv, "the file is a git-LFS pointer, not the model itself; fetch it with git lfs pull"},
    {"PK\x03\x04"sv, "the file is a zip archive (a PyTorch checkpoint is one too), not GGUF; unpack or convert it"},
    {"\x1f\x8b"sv, "the file is compressed with gzip, not GGUF; unpack it first"},
    {"\x28\xb5\x2f\xfd"sv, "the file is compressed with zstd, not GGUF; unpack it first"},
    {"\xfd\x37zXZ"sv, "the file is compressed with xz, not GGUF; unpack it first"},
    {"BZh"sv, "the file is compressed with bzip2, not GGUF; unpack it first"},
    {"\x89HDF"sv, "the file is HDF5, not GGUF; convert it first"},
    {"\x7f"
     "ELF"sv,
     "the file is a program or library (ELF), not a GGUF model"},
    {"\x80\x02"sv, "the file is a Python pickle (an old PyTorch checkpoint), not GGUF; convert it first"},
    {"FUGG"sv, "the file is big-endian GGUF (it starts with FUGG); mote reads little-endian files"},
    {"lmgg"sv, "the file is in the GGML format of before GGUF (magic ggml), which mote does not read; convert it"},
    {"fmgg"sv, "the file is in the GGML format of before GGUF (magic ggmf), which mote does not read; convert it"},
    {"tjgg"sv, "the file is in the GGML format of before GGUF (magic ggjt), which mote does not read; convert it"},
    {"algg"sv, "the file is a GGML adapter of before GGUF (magic ggla), which mote does not read"},
};

constexpr bool is_blank(uint8_t byte) { return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n'; }

bool starts_with_letters(std::string_view text, std::string_view lower_case) {
  if (text.size() < lower_case.size()) return false;
  for (size_t i = 0; i < lower_case.size(); ++i) {
    const char c = text[i];
    if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c) != lower_case[i]) return false;
  }
  return true;
}

// The text behind blanks and a byte order mark: up to 64 bytes of each file are looked at.
std::string_view visible_start(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  while (!text.empty() && is_blank(static_cast<uint8_t>(text.front()))) text.remove_prefix(1);
  return text;
}

}   // namespace

Status not_gguf(std::span<const uint8_t> bytes) {
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()), bytes.size() < 64 ? bytes.size() : 64);
  if (start.empty()) return Status::error(Code::bad_model, "the file is empty (0 bytes)");
  for (const Signature& signature : kSignatures) {
    if (start.starts_with(signature.start)) return Status::error(Code::bad_model, signature.sentence);
  }
  const std::string_view visible = visible_start(start);
  for (const std::string_view mark : {"<!doctype"sv, "<html"sv, "<head"sv, "<?xml"sv, "<!--"sv}) {
    if (starts_with_letters(visible, mark)) {
      return Status::error(Code::bad_model,
                           "the file is a web page (it starts with {}), not a GGUF model; check the download",
                           slice(visible, 0, mark.size()));
    }
  }
  if (start.size() >= 10 && start[8] == '{' && load_le<uint64_t>(bytes.data()) <= uint64_t{100} << 20) {
    return Status::error(Code::bad_model, "the file is safetensors, not GGUF; convert it first");
  }
  if (visible.starts_with("{")) return Status::error(Code::bad_model, "the file is JSON text, not a GGUF model");
  if (start.size() < 4) return Status::error(Code::bad_model, "the file has {} bytes, too few for GGUF", bytes.size());
  char hex[12];
  for (int i = 0; i < 4; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex[3 * i] = kDigits[bytes[static_cast<size_t>(i)] >> 4];
    hex[3 * i + 1] = kDigits[bytes[static_cast<size_t>(i)] & 15];
    hex[3 * i + 2] = ' ';
  }
  return Status::error(Code::bad_model,
                       "the file is no GGUF model: it starts with the bytes {}, not 47 47 55 46 (GGUF)",
                       std::string_view(hex, 11));
}

}   // namespace mote::gguf
