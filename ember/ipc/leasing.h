// What taking a lease needs, of memory or of an event.
#pragma once

#include <cstdint>

#include "ember/base/mutex.h"
#include "ember/ipc/messages.h"
#include "ember/ipc/service.h"

namespace ember::inline v0::ipc {

/// Error `cannot receive: ...` with the status's detail.
void require(const Status& status);

/// Gives a lease back unless it was kept.
class NewLease {
 public:
  NewLease(Service& service, const Process& owner)
      : service_(service), owner_(owner), number_(Service::new_lease()) {}
  ~NewLease() {
    if (!granted_) return;
    const MutexLock lock(service_.mutex);
    service_.give_back(owner_, number_);
  }
  NewLease(const NewLease&) = delete;
  NewLease& operator=(const NewLease&) = delete;

  std::uint64_t number() const noexcept { return number_; }
  void granted() noexcept { granted_ = true; }
  void keep() noexcept { granted_ = false; }

 private:
  Service& service_;
  const Process owner_;
  const std::uint64_t number_;
  bool granted_ = false;
};

/// Being one of an owner's users.
class User {
 public:
  User(Service& service, const Process& owner) : service_(service), owner_(owner) {
    const MutexLock lock(service_.mutex);
    service_.imports.enter(owner_);
  }
  ~User() {
    if (kept_) return;
    WordPool::Files retired;  // go after the lock
    const MutexLock lock(service_.mutex);
    service_.words.retire(service_.imports.leave(owner_));
    service_.wake();
    retired = service_.retired_words();
  }
  User(const User&) = delete;
  User& operator=(const User&) = delete;
  void keep() noexcept { kept_ = true; }

 private:
  Service& service_;
  const Process owner_;
  bool kept_ = false;
};

/// The owner's file of words that a reply speaks of, as this process has it; `file` is what came
/// with the reply. The owner must have a user. Error if the file is none.
Ref<WordsFile> words_of(Service& service, const Process& owner, const Reply& reply,
                        const File& file);
/// Which of the owner's files of words this process has; zero for none.
std::uint64_t known_words(Service& service, const Process& owner);

}  // namespace ember::inline v0::ipc
