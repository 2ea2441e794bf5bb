#include "pando/runtime/staging_pool.hpp"

#include <algorithm>
#include <cstdlib>

#include "pando/base/error.hpp"

namespace pando {
namespace {

constexpr std::size_t kPage = 4096;

std::size_t whole_pages(std::size_t bytes) {
  return std::max(kPage, (bytes + kPage - 1) / kPage * kPage);
}

}  // namespace

void StagingCopy::FreeMemory::operator()(std::byte* pages) const { std::free(pages); }

bool StagingPool::has_room(std::size_t bytes) const {
  return used_ + static_cast<std::int64_t>(whole_pages(bytes)) <= limit_;
}

std::shared_ptr<StagingCopy> StagingPool::take(std::size_t bytes, std::size_t most_copies) {
  bytes = whole_pages(bytes);
  std::shared_ptr<StagingCopy> copy = take_spare(bytes);
  if (copy == nullptr) {
    make_room(bytes);
    copy = std::make_shared<StagingCopy>();
    copy->memory.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, bytes)));
    copy->bytes = bytes;
  }
  if (copy->memory == nullptr) {
    throw OutOfMemory(str_cat("no memory for ", bytes, " bytes of a remote store under way"), "");
  }
  spare_.reserve(spare_.size() + most_copies);
  used_ += static_cast<std::int64_t>(copy->bytes);
  return copy;
}

std::shared_ptr<StagingCopy> StagingPool::take_spare(std::size_t bytes) {
  const auto fits = std::find_if(spare_.begin(), spare_.end(), [&](const auto& spare) {
    return spare->bytes >= bytes && spare->bytes <= 2 * bytes;
  });
  if (fits == spare_.end()) return nullptr;
  std::shared_ptr<StagingCopy> copy = std::move(*fits);
  spare_.erase(fits);
  spare_bytes_ -= static_cast<std::int64_t>(copy->bytes);
  return copy;
}

void StagingPool::make_room(std::size_t bytes) {
  const std::int64_t wanted = used_ + static_cast<std::int64_t>(bytes);
  auto end = spare_.begin();
  for (; end != spare_.end() && wanted + spare_bytes_ > limit_; ++end) {
    spare_bytes_ -= static_cast<std::int64_t>((*end)->bytes);
  }
  spare_.erase(spare_.begin(), end);
}

void StagingPool::give_back(std::shared_ptr<StagingCopy>& copy) {
  if (copy == nullptr) return;
  if (copy.use_count() > 1) return copy.reset();
  const auto bytes = static_cast<std::int64_t>(copy->bytes);
  used_ -= bytes;
  spare_bytes_ += bytes;
  spare_.push_back(std::move(copy));
}

}  // namespace pando
