// The typed getters: conversions that keep the value, and the sentences for those that would not.
#include "core/base/bytes.h"
#include "core/gguf/file.h"
#include "core/gguf/header_reader.h"

namespace mote::gguf {
namespace {

// The value as 64 bits, and whether they are those of a negative int64.
struct Integer {
  uint64_t bits;
  bool negative;
};

template <class T>
Integer load_signed(const uint8_t* at) {
  const int64_t value = load_le<T>(at);
  return {static_cast<uint64_t>(value), value < 0};
}

bool load_integer(Type type, const uint8_t* at, Integer* integer) {
  switch (type) {
    case Type::uint8:
      *integer = {load_le<uint8_t>(at), false};
      return true;
    case Type::uint16:
      *integer = {load_le<uint16_t>(at), false};
      return true;
    case Type::uint32:
      *integer = {load_le<uint32_t>(at), false};
      return true;
    case Type::uint64:
      *integer = {load_le<uint64_t>(at), false};
      return true;
    case Type::int8:
      *integer = load_signed<int8_t>(at);
      return true;
    case Type::int16:
      *integer = load_signed<int16_t>(at);
      return true;
    case Type::int32:
      *integer = load_signed<int32_t>(at);
      return true;
    case Type::int64:
      *integer = load_signed<int64_t>(at);
      return true;
    case Type::float32:
    case Type::float64:
    case Type::boolean:
    case Type::string:
    case Type::array:
      break;
  }
  return false;
}

Status missing(std::string_view key) { return Status::error(Code::bad_model, "the file has no {}", key); }

Status mistyped(const Entry& entry, std::string_view wanted) {
  if (entry.type != Type::array) {
    return Status::error(Code::bad_model, "{} is of type {}, {} is expected", entry.key, type_name(entry.type), wanted);
  }
  return Status::error(Code::bad_model, "{} is an array of {} {}, {} is expected", entry.key, entry.count,
                       type_name(entry.element_type), wanted);
}

Result<uint64_t> in_range(std::string_view key, const Integer& found, uint64_t lowest, uint64_t highest) {
  if (found.negative) {
    return Status::error(Code::bad_model, "{} is {}, {} to {} is allowed", key, static_cast<int64_t>(found.bits),
                         lowest, highest);
  }
  if (found.bits < lowest || found.bits > highest) {
    return Status::error(Code::bad_model, "{} is {}, {} to {} is allowed", key, found.bits, lowest, highest);
  }
  return found.bits;
}

Result<uint64_t> unsigned_of(const Entry& entry, uint64_t lowest, uint64_t highest) {
  Integer found;
  if (!load_integer(entry.type, entry.value, &found)) return mistyped(entry, "an integer");
  return in_range(entry.key, found, lowest, highest);
}

Result<bool> bool_of(const Entry& entry) {
  if (entry.type == Type::boolean) return load_le<uint8_t>(entry.value) != 0;
  Integer found;
  if (!load_integer(entry.type, entry.value, &found)) return mistyped(entry, "a bool");
  MOTE_ASSIGN_OR_RETURN(const uint64_t value, in_range(entry.key, found, 0, 1));
  return value != 0;
}

// Element `index` of a list of `count`, as an entry of its own; a scalar is every element.
Result<Entry> element_of(const Entry& entry, uint64_t index, uint64_t count, bool bools) {
  if (entry.type != Type::array) return entry;
  const std::string_view wanted = bools ? "a bool" : "an integer";
  if (entry.count != count || index >= count)
    return Status::error(Code::bad_model, "{} is an array of {} {}, {} or a list of {} is expected", entry.key,
                         entry.count, type_name(entry.element_type), wanted, count);
  Entry element = entry;
  element.type = entry.element_type;
  element.count = 1;
  element.value_bytes = fixed_bytes(element.type);
  element.value += static_cast<size_t>(index * element.value_bytes);
  Integer integer;
  if (load_integer(element.type, element.value, &integer) || (bools && element.type == Type::boolean)) return element;
  return mistyped(entry, bools ? "a bool or a list of them" : "an integer or a list of them");
}

Result<double> real_of(const Entry& entry) {
  double value = 0;
  Integer integer;
  if (entry.type == Type::float32) {
    value = static_cast<double>(load_le<float>(entry.value));
  } else if (entry.type == Type::float64) {
    value = load_le<double>(entry.value);
  } else if (load_integer(entry.type, entry.value, &integer)) {
    value =
        integer.negative ? static_cast<double>(static_cast<int64_t>(integer.bits)) : static_cast<double>(integer.bits);
  } else {
    return mistyped(entry, "a number");
  }
  const double difference = value - value;   // 0 for finite values, else NaN
  if (difference != 0 || difference != difference) {
    return Status::error(Code::bad_model, "{} is {}, a finite number is expected", entry.key, value);
  }
  return value;
}

Result<std::string_view> string_of(const Entry& entry) {
  if (entry.type != Type::string) return mistyped(entry, "a string");
  const uint8_t* at = entry.value;
  return text_at(&at);
}

}   // namespace

Result<uint64_t> File::get_unsigned(std::string_view key, uint64_t lowest, uint64_t highest) const {
  Entry entry;
  if (!find(key, &entry)) return missing(key);
  return unsigned_of(entry, lowest, highest);
}

Result<uint64_t> File::get_unsigned(std::string_view key, uint64_t lowest, uint64_t highest, uint64_t otherwise) const {
  Entry entry;
  if (!find(key, &entry)) return otherwise;
  return unsigned_of(entry, lowest, highest);
}

Result<double> File::get_real(std::string_view key) const {
  Entry entry;
  if (!find(key, &entry)) return missing(key);
  return real_of(entry);
}

Result<double> File::get_real(std::string_view key, double otherwise) const {
  Entry entry;
  if (!find(key, &entry)) return otherwise;
  return real_of(entry);
}

Result<bool> File::get_bool(std::string_view key, bool otherwise) const {
  Entry entry;
  if (!find(key, &entry)) return otherwise;
  return bool_of(entry);
}

Result<std::string_view> File::get_string(std::string_view key) const {
  Entry entry;
  if (!find(key, &entry)) return missing(key);
  return string_of(entry);
}

Result<std::string_view> File::get_string(std::string_view key, std::string_view otherwise) const {
  Entry entry;
  if (!find(key, &entry)) return otherwise;
  return string_of(entry);
}

Result<uint64_t> File::get_unsigned_at(std::string_view key, uint64_t index, uint64_t count, uint64_t lowest,
                                       uint64_t highest) const {
  Entry entry;
  if (!find(key, &entry)) return missing(key);
  MOTE_ASSIGN_OR_RETURN(const Entry element, element_of(entry, index, count, false));
  return unsigned_of(element, lowest, highest);
}

Result<bool> File::get_bool_at(std::string_view key, uint64_t index, uint64_t count, bool otherwise) const {
  Entry entry;
  if (!find(key, &entry)) return otherwise;
  MOTE_ASSIGN_OR_RETURN(const Entry element, element_of(entry, index, count, true));
  return bool_of(element);
}

Result<Entry> File::get_array(std::string_view key, Type element_type) const {
  Entry entry;
  if (!find(key, &entry)) return missing(key);
  if (entry.type == Type::array && entry.element_type == element_type) return entry;
  if (entry.type != Type::array) {
    return Status::error(Code::bad_model, "{} is of type {}, an array of {} is expected", key, type_name(entry.type),
                         type_name(element_type));
  }
  return Status::error(Code::bad_model, "{} is an array of {}, an array of {} is expected", key,
                       type_name(entry.element_type), type_name(element_type));
}

}   // namespace mote::gguf
