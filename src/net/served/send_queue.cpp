// SPDX-License-Identifier: Apache-2.0
#include "net/served/send_queue.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ayatori::net::served {
namespace {

constexpr std::byte kZeros[8]{};

std::byte* put_frame(ByteBuffer& lane, const FrameHeader& header) {
  const std::size_t bytes = frame_bytes(header.body_bytes);
  std::byte* const at = lane.extend(bytes);
  std::memcpy(at, &header, kHeaderBytes);
  std::memset(at + kHeaderBytes + header.body_bytes, 0, bytes - kHeaderBytes - header.body_bytes);
  return at + kHeaderBytes;
}

}  // namespace

std::byte* ByteBuffer::extend(std::size_t bytes) {
  if (room_ - size_ < bytes) {
    room_ = std::max({kBytesMin, 2 * room_, size_ + bytes});
    std::unique_ptr<std::byte[]> larger = std::make_unique_for_overwrite<std::byte[]>(room_);
    if (size_ != 0) std::memcpy(larger.get(), bytes_.get(), size_);
    bytes_ = std::move(larger);
  }
  std::byte* const at = bytes_.get() + size_;
  size_ += bytes;
  return at;
}

std::byte* SendQueue::push_request(const FrameHeader& header, bool is_bulk) {
  const std::size_t waiting = requests_.size() + held_bytes_;
  const std::size_t bytes = frame_bytes(header.body_bytes);
  if (waiting != 0 && waiting + bytes > request_bytes_max_) return nullptr;
  if (held_.empty()) {
    bulk_requests_ += is_bulk;
    return put_frame(requests_, header);
  }
  held_bytes_ += bytes;
  held_.back().bulk_requests += is_bulk;
  return put_frame(held_.back().requests, header);
}

std::byte* SendQueue::push_reply(const FrameHeader& header) {
  if (replies_.size() + frame_bytes(header.body_bytes) > reply_bytes_max_) return nullptr;
  return put_frame(replies_, header);
}

void SendQueue::push_bulk(Bulk&& bulk) {
  if (bulk.way == Way::kToOrigin) ++bulk_to_origin_;
  // The data of a write whose request is held waits with it; a write that was told to go on left its epoch long ago.
  const bool held = bulk.way == Way::kToTarget && !bulk.told_to_go && !held_.empty();
  (held ? held_.back().bulk : bulk_).push_back(std::move(bulk));
}

void SendQueue::end_bulk() {
  if (bulk_requests_ != 0) --bulk_requests_;  // 0: a broken peer answered what still waits behind a fence
  open_epochs();
}

void SendQueue::fence() {
  if (bulk_requests_ != 0 && (held_.empty() || !held_.back().requests.empty())) held_.emplace_back();
}

void SendQueue::open_epochs() {
  while (bulk_requests_ == 0 && !held_.empty()) {
    Epoch epoch = std::move(held_.front());
    held_.pop_front();
    held_bytes_ -= epoch.requests.size();
    if (!epoch.requests.empty())
      std::memcpy(requests_.extend(epoch.requests.size()), epoch.requests.data(), epoch.requests.size());
    for (Bulk& bulk : epoch.bulk) bulk_.push_back(std::move(bulk));
    bulk_requests_ = epoch.bulk_requests;
  }
}

bool SendQueue::waits_bulk(std::uint32_t slot) const noexcept {
  const auto is_its = [slot](const Bulk& bulk) { return bulk.way == Way::kToTarget && bulk.slot == slot; };
  if (std::any_of(bulk_.begin(), bulk_.end(), is_its)) return true;
  return std::any_of(held_.begin(), held_.end(),
                     [&](const Epoch& epoch) { return std::any_of(epoch.bulk.begin(), epoch.bulk.end(), is_its); });
}

bool SendQueue::idle() const noexcept {
  return first_part_ == parts_count_ && replies_.empty() && requests_.empty() && bulk_.empty() && held_.empty();
}

void SendQueue::add_part(const void* data, std::size_t bytes) noexcept {
  if (bytes != 0) parts_[parts_count_++] = {const_cast<void*>(data), bytes};
}

bool SendQueue::compose() {
  if (first_part_ != parts_count_) return true;
  first_part_ = parts_count_ = 0;
  sent_replies_.clear();
  sent_requests_.clear();
  segment_slot_ = kNoSlot;
  std::swap(replies_, sent_replies_);
  std::swap(requests_, sent_requests_);
  add_part(sent_replies_.data(), sent_replies_.size());
  add_part(sent_requests_.data(), sent_requests_.size());
  if (!bulk_.empty()) compose_segment();
  return parts_count_ != 0;
}

void SendQueue::compose_segment() {
  Bulk bulk = std::move(bulk_.front());
  bulk_.pop_front();
  segment_header_ = {};
  segment_header_.kind = FrameKind::kData;
  segment_header_.code = static_cast<std::uint8_t>(bulk.way);
  segment_header_.slot = bulk.slot;
  segment_header_.serial = bulk.serial;
  segment_header_.offset = bulk.sent;
  const void* data = nullptr;
  std::size_t bytes = 0;
  if (bulk.data.contiguous()) {  // Q5
    const std::span<std::byte> piece = bulk.data.front(segment_bytes_max_);
    data = piece.data();
    bytes = piece.size();
    bulk.data.skip(bytes);
  } else {
    bytes = std::min<std::uint64_t>({bulk.data.left(), kGatheredBytesMax, segment_bytes_max_});
    gathered_.clear();
    gather(bulk.data, gathered_.extend(bytes), bytes, false);
    data = gathered_.data();
  }
  bulk.sent += bytes;
  segment_header_.body_bytes = static_cast<std::uint32_t>(bytes);
  add_part(&segment_header_, kHeaderBytes);
  add_part(data, bytes);
  add_part(kZeros, padded(bytes) - bytes);
  if (bulk.way == Way::kToTarget) segment_slot_ = bulk.slot;
  if (bulk.data.left() != 0) {
    bulk_.push_back(std::move(bulk));  // Q1: in turns
  } else if (bulk.way == Way::kToTarget) {
    end_bulk();
  } else {
    --bulk_to_origin_;
  }
}

void SendQueue::advance(std::size_t bytes) noexcept {
  while (bytes != 0) {
    iovec& part = parts_[first_part_];
    const std::size_t used = std::min(bytes, part.iov_len);
    part.iov_base = static_cast<std::byte*>(part.iov_base) + used;
    part.iov_len -= used;
    bytes -= used;
    if (part.iov_len == 0) ++first_part_;
  }
  if (first_part_ == parts_count_) segment_slot_ = kNoSlot;
}

void SendQueue::clear() {
  replies_.clear();
  requests_.clear();
  bulk_.clear();
  held_.clear();
  held_bytes_ = 0;
  bulk_to_origin_ = 0;
  bulk_requests_ = 0;
  first_part_ = parts_count_ = 0;
  segment_slot_ = kNoSlot;
}

}  // namespace ayatori::net::served
