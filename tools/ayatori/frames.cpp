// SPDX-License-Identifier: Apache-2.0
#include "frames.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace ayatori::tool {
namespace {

struct Header {
  std::uint32_t kind;
  std::uint32_t bytes;
};

constexpr std::size_t kReadBytes = 64 * 1024;

}  // namespace

Packer& Packer::number(std::uint64_t value) {
  body_.append(reinterpret_cast<const char*>(&value), sizeof value);
  return *this;
}

Packer& Packer::text(std::string_view value) {
  number(value.size());
  body_.append(value);
  return *this;
}

std::uint64_t Unpacker::number() noexcept {
  std::uint64_t value = 0;
  ok_ = ok_ && rest_.size() >= sizeof value;
  if (!ok_) return 0;
  std::memcpy(&value, rest_.data(), sizeof value);
  rest_.remove_prefix(sizeof value);
  return value;
}

std::string_view Unpacker::text() noexcept {
  const std::uint64_t bytes = number();
  ok_ = ok_ && bytes <= rest_.size();
  if (!ok_) return {};
  const std::string_view value = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return value;
}

void FrameWriter::add(FrameKind kind, std::string_view body) {
  const Header header{static_cast<std::uint32_t>(kind), static_cast<std::uint32_t>(body.size())};
  pending_.append(reinterpret_cast<const char*>(&header), sizeof header);
  pending_.append(body);
}

bool FrameWriter::flush(int fd) {
  while (!empty()) {
    const ssize_t bytes = write(fd, pending_.data() + written_, pending_.size() - written_);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return errno == EAGAIN;
    written_ += static_cast<std::size_t>(bytes);
  }
  pending_.clear();
  written_ = 0;
  return true;
}

FrameReader::Arrived FrameReader::fill(int fd) {
  if (at_ != 0) buffer_.erase(0, std::exchange(at_, 0));
  std::array<char, kReadBytes> room;
  const ssize_t bytes = read(fd, room.data(), room.size());
  if (bytes == 0) return Arrived::kEnd;
  if (bytes < 0) return errno == EAGAIN || errno == EINTR ? Arrived::kNothing : Arrived::kEnd;
  buffer_.append(room.data(), static_cast<std::size_t>(bytes));
  return Arrived::kBytes;
}

bool FrameReader::greeted() {
  if (greeted_) return true;
  const std::size_t found = buffer_.find(kGreeting);
  if (found == buffer_.npos) {
    broken_ = broken_ || buffer_.size() > kGreetingWithinBytes;
    return false;
  }
  at_ = found + kGreeting.size();
  return greeted_ = true;
}

bool FrameReader::next(Frame* frame) {
  Header header;
  if (broken_ || bytes() < sizeof header) return false;
  std::memcpy(&header, buffer_.data() + at_, sizeof header);
  if (header.bytes > kBodyBytesMax) broken_ = true;  // F2
  if (broken_ || bytes() - sizeof header < header.bytes) return false;
  frame->kind = static_cast<FrameKind>(header.kind);
  frame->body = std::string_view(buffer_).substr(at_ + sizeof header, header.bytes);
  at_ += sizeof header + header.bytes;
  return true;
}

}  // namespace ayatori::tool
