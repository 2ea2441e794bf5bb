// The texts that tensors are known by.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pando {

/// The ids of all tensors that an Ir ever had. They stay where they are, so tensors point to them,
/// and a copy of the Ir shares them.
class TensorIds {
 public:
  const std::string& add(std::string id) { return own_->emplace_back(std::move(id)); }

  /// Keeps what `other` has by now as long as this lives.
  void share(const TensorIds& other) {
    shared_.insert(shared_.end(), other.shared_.begin(), other.shared_.end());
    shared_.push_back(other.own_);
  }

 private:
  using Texts = std::deque<std::string>;
  std::shared_ptr<Texts> own_ = std::make_shared<Texts>();
  std::vector<std::shared_ptr<const Texts>> shared_;
};

}  // namespace pando
