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
  const auto waits = [slot](const Bulk& bulk) { return is_its(bulk, slot); };
  if (std::any_of(bulk_.begin(), bulk_.end(), waits)) return true;
  if (std::any_of(in_batch_.begin(), in_batch_.end(),
                  [&](const InBatch& each) { return waits(each.bulk) && each.composed != each.bulk.data.left(); }))
    return true;
  return std::any_of(held_.begin(), held_.end(),
                     [&](const Epoch& epoch) { return std::any_of(epoch.bulk.begin(), epoch.bulk.end(), waits); });
}

bool SendQueue::batch_holds(std::uint32_t slot) const noexcept {
  return std::any_of(in_batch_.begin(), in_batch_.end(),
                     [slot](const InBatch& each) { return is_its(each.bulk, slot); });
}

bool SendQueue::take_handed_over(std::uint64_t serial) {
  return std::erase_if(handed_over_, [serial](const HandedOver& each) { return each.serial == serial; }) != 0;
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
  std::swap(replies_, sent_replies_);
  std::swap(requests_, sent_requests_);
  add_part(sent_replies_.data(), sent_replies_.size());
  add_part(sent_requests_.data(), sent_requests_.size());
  compose_segments();
  return parts_count_ != 0;
}

void SendQueue::compose_segments() {
  bool ends_transfer = false;
  while (segments_count_ != segments_max_ && !ends_transfer) {
    std::size_t of = 0;
    if (!bulk_.empty()) {
      const bool is_gathered = !bulk_.front().data.contiguous();
      if (is_gathered && segments_count_ != 0) return;  // its buffer is filled when it is sent
      of = in_batch_.size();
      in_batch_.push_back({std::move(bulk_.front())});
      bulk_.pop_front();
      ends_transfer = is_gathered;
    } else if (in_batch_.empty()) {
      return;
    } else {
      of = next_in_batch();
    }
    compose_segment(of);
    ends_transfer = ends_transfer || in_batch_[of].composed == in_batch_[of].bulk.data.left();
  }
}

// Whose turn it is where all transfers have segments in the batch, none its last.
std::size_t SendQueue::next_in_batch() const noexcept {
  return (segments_[segments_count_ - 1].of + 1) % in_batch_.size();
}

void SendQueue::compose_segment(std::size_t of) {
  InBatch& from = in_batch_[of];
  Bulk& bulk = from.bulk;
  Segment& segment = segments_[segments_count_++];
  segment.of = of;
  segment.first_part = parts_count_;
  segment.header = {};
  segment.header.kind = FrameKind::kData;
  segment.header.code = static_cast<std::uint8_t>(bulk.way);
  segment.header.slot = bulk.slot;
  segment.header.serial = bulk.serial;
  segment.header.offset = bulk.sent + from.composed;
  std::uint64_t bytes = std::min<std::uint64_t>(bulk.data.left() - from.composed, segment_bytes_max_);
  const void* data = nullptr;
  if (bulk.data.contiguous()) {  // Q5
    data = bulk.data.front(from.composed + bytes).data() + from.composed;
    from.composed += bytes;
  } else {
    bytes = std::min<std::uint64_t>(bytes, kGatheredBytesMax);
    gathered_.clear();
    gather(bulk.data, gathered_.extend(bytes), bytes, false);
    bulk.sent += bytes;
    data = gathered_.data();
  }
  if (bulk.way == Way::kToOrigin && from.composed == bulk.data.left()) --bulk_to_origin_;
  segment.header.body_bytes = static_cast<std::uint32_t>(bytes);
  add_part(&segment.header, kHeaderBytes);
  add_part(data, bytes);
  add_part(kZeros, padded(bytes) - bytes);
}

void SendQueue::advance(std::size_t bytes) {
  while (bytes != 0) {
    iovec& part = parts_[first_part_];
    const std::size_t used = std::min(bytes, part.iov_len);
    part.iov_base = static_cast<std::byte*>(part.iov_base) + used;
    part.iov_len -= used;
    bytes -= used;
    if (part.iov_len == 0) ++first_part_;
  }
  if (first_part_ == parts_count_) settle();
}

// The batch is out.
void SendQueue::settle() {
  segments_count_ = 0;
  for (InBatch& each : in_batch_) {
    Bulk& bulk = each.bulk;
    bulk.data.skip(each.composed);
    bulk.sent += each.composed;
    if (bulk.data.left() != 0) {
      bulk_.push_back(std::move(bulk));  // Q1: in turns
      continue;
    }
    if (bulk.is_message) handed_over_.push_back({bulk.slot, bulk.serial});
    if (bulk.way == Way::kToTarget) end_bulk();
  }
  in_batch_.clear();
}

void SendQueue::cut() {
  while (segments_count_ != 0) {
    const Segment& last = segments_[segments_count_ - 1];
    InBatch& from = in_batch_[last.of];
    const iovec& begin = parts_[last.first_part];
    if (last.first_part < first_part_ || begin.iov_base != &last.header || !from.bulk.data.contiguous()) break;
    if (from.bulk.way == Way::kToOrigin && from.composed == from.bulk.data.left()) ++bulk_to_origin_;
    parts_count_ = last.first_part;
    from.composed -= last.header.body_bytes;
    --segments_count_;
    if (from.composed != 0) continue;
    bulk_.push_front(std::move(from.bulk));  // the last that came: each has its first segment before the others' second
    in_batch_.pop_back();
  }
  if (first_part_ == parts_count_) settle();  // what is left of it was out
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
  segments_count_ = 0;
  in_batch_.clear();
  handed_over_.clear();
}

}  // namespace ayatori::net::served
