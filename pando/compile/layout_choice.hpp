// In which of two layouts each kernel works, so that little is copied between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pando {

/// Users work in the first layout or in the other one. A value is copied once if it has users in
/// both. Starts from all users in the other layout and moves one at a time while less is copied.
class LayoutChoice {
 public:
  /// `first_bytes`: what the user copies by itself if it works in the first layout.
  std::size_t add_user(std::int64_t first_bytes);
  /// `is_first`: something that cannot choose uses it in the first layout.
  std::size_t add_value(std::int64_t bytes, bool is_first);
  /// Once for each pair.
  void add_use(std::size_t user, std::size_t value);

  /// By user, whether it works in the other layout: only where users that share values, from one
  /// to the next, copy less for it together.
  std::vector<bool> run();

 private:
  struct User {
    std::int64_t first_bytes = 0;
    std::vector<std::size_t> values;
    bool is_other = true;
  };
  struct Value {
    std::int64_t bytes = 0;
    bool is_first = false;
    std::int64_t users = 0, others = 0;  // that can choose
  };

  bool is_copied(const Value& value, std::int64_t others) const {
    return others > 0 && (value.is_first || others < value.users);
  }
  std::int64_t change_of(const User& user) const;
  bool move_users();
  void drop_what_gains_nothing();

  std::vector<User> users_;
  std::vector<Value> values_;
};

}  // namespace pando
