#include "pando/compile/layout_choice.hpp"

#include <algorithm>
#include <numeric>

namespace pando {
namespace {

/// Chains are moved as a whole by one sweep; more than a few gain little.
constexpr int kMostSweeps = 8;

/// Which users and values hang together.
class Components {
 public:
  explicit Components(std::size_t count) : parents_(count) {
    std::iota(parents_.begin(), parents_.end(), std::size_t{0});
  }
  std::size_t of(std::size_t i) {
    while (parents_[i] != i) i = parents_[i] = parents_[parents_[i]];
    return i;
  }
  void join(std::size_t a, std::size_t b) { parents_[of(a)] = of(b); }

 private:
  std::vector<std::size_t> parents_;
};

}  // namespace

std::size_t LayoutChoice::add_user(std::int64_t first_bytes) {
  users_.push_back({first_bytes, {}, true});
  return users_.size() - 1;
}

std::size_t LayoutChoice::add_value(std::int64_t bytes, bool is_first) {
  values_.push_back({bytes, is_first, 0, 0});
  return values_.size() - 1;
}

void LayoutChoice::add_use(std::size_t user, std::size_t value) {
  users_[user].values.push_back(value);
  ++values_[value].users;
  ++values_[value].others;
}

std::vector<bool> LayoutChoice::run() {
  for (int sweep = 0; sweep < kMostSweeps && move_users(); ++sweep) {
  }
  drop_what_gains_nothing();
  std::vector<bool> result;
  result.reserve(users_.size());
  for (const User& user : users_) result.push_back(user.is_other);
  return result;
}

/// How many bytes more are copied if the user moves.
std::int64_t LayoutChoice::change_of(const User& user) const {
  const int step = user.is_other ? -1 : 1;
  std::int64_t change = -step * user.first_bytes;
  for (const std::size_t i : user.values) {
    const Value& value = values_[i];
    change +=
        value.bytes * (is_copied(value, value.others + step) - is_copied(value, value.others));
  }
  return change;
}

/// From the last user to the first: the ends of chains first. Returns whether any moved.
bool LayoutChoice::move_users() {
  bool has_moved = false;
  for (std::size_t i = users_.size(); i-- > 0;) {
    User& user = users_[i];
    const std::int64_t change = change_of(user);
    if (change > 0 || (change == 0 && !user.is_other)) continue;
    for (const std::size_t value : user.values) values_[value].others += user.is_other ? -1 : 1;
    user.is_other = !user.is_other;
    has_moved = true;
  }
  return has_moved;
}

void LayoutChoice::drop_what_gains_nothing() {
  Components components(users_.size() + values_.size());
  for (std::size_t i = 0; i < users_.size(); ++i) {
    for (const std::size_t value : users_[i].values) components.join(i, users_.size() + value);
  }
  // By component, what is saved beside all users in the first layout.
  std::vector<std::int64_t> saved(users_.size() + values_.size());
  for (std::size_t i = 0; i < users_.size(); ++i) {
    if (users_[i].is_other) saved[components.of(i)] += users_[i].first_bytes;
  }
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const Value& value = values_[i];
    if (is_copied(value, value.others)) saved[components.of(users_.size() + i)] -= value.bytes;
  }
  for (std::size_t i = 0; i < users_.size(); ++i) {
    if (saved[components.of(i)] <= 0) users_[i].is_other = false;
  }
}

}  // namespace pando
