// The words through which streams of several processes wait for each other: a file of this
// process's, cut into cells, and how it is seen by the others.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/driver/driver.h"
#include "ember/driver/kernel.h"
#include "ember/ipc/shared_file.h"

namespace ember::inline v0::ipc {

/// A mapped file of words, one's own or another process's. Owned by whoever may still look there,
/// tasks that wait included.
class WordsFile : public driver::Context {
 public:
  static constexpr std::size_t kBytes = std::size_t{256} << 10;
  /// A cell has a line of the cache to itself.
  static constexpr std::size_t kCellWords = 8;
  static constexpr std::size_t kCells = kBytes / (kCellWords * sizeof(driver::Word));

  /// A new one, with memory behind all of it.
  static Status make(Ref<WordsFile>& out);
  /// Another process's.
  static Status map(const File& file, Ref<WordsFile>& out);
  ~WordsFile() override;

  /// Makes it fit for word_write and word_wait; once is enough.
  Status open_with(driver::Driver& driver);

  /// The first word of a cell; null beyond the end.
  driver::Word* cell(std::uint64_t index) const noexcept;
  /// -1 unless it was made here.
  int descriptor() const noexcept { return file_.get(); }

 private:
  WordsFile() = default;
  File file_;
  Mapping mapping_;
  Mutex mutex_;  // two threads need it for the first time
  bool opened_ EMBER_GUARDED_BY(mutex_) = false;
};

/// Where a seed decides, work is done only while the host is in the driver, and this process may
/// next wait for another one outside of it: what that one waits for is done before. Observers are
/// not told: it orders nothing for the program.
Status finish_if_seeded(const driver::StreamHandle& stream) noexcept;

/// The cells of this process's own file, which is used while any of them is. Not thread-safe.
class WordPool {
 public:
  struct Cell {
    std::uint32_t index = 0;
    driver::Word* word = nullptr;  ///< the first of kCellWords; null: no cell
  };
  /// Whether a cell whose word is that can be waited for again: it was not lost, and there is a
  /// larger number that means nothing else.
  static bool is_usable(std::uint64_t word) noexcept { return word < driver::kWordLost - 1; }
  /// A cell; one that was never used has zeros. Code::launch_out_of_resources if all are in use.
  Status take(Cell& out);
  void give_back(const Cell& cell) noexcept;
  /// The same once its word is at least `value`: until then work may be going to write it.
  void give_back_at(const Cell& cell, std::uint64_t value);
  /// Looks which of those have come; true while some have not.
  bool settle() noexcept;

  const Ref<WordsFile>& file() const noexcept { return file_; }
  /// Which file it is: a later one has another number.
  std::uint64_t number() const noexcept { return number_; }
  bool empty() const noexcept { return used_ == 0 && retired_.empty(); }
  bool any_retired() const noexcept { return !retired_.empty(); }

  using Files = std::vector<Ref<WordsFile>>;
  /// For a share of a file, this process's or another one's, that may be the last. Real devices
  /// wait for all work that was enqueued before they let go of a file, host functions among it: so
  /// it goes neither under a lock that those take, nor in one of them.
  void retire(Ref<WordsFile> file) {
    if (file) retired_.push_back(std::move(file));
  }
  Files take_retired() noexcept { return std::exchange(retired_, {}); }

 private:
  struct Owed {
    Cell cell;
    std::uint64_t value = 0;
  };
  Ref<WordsFile> file_;
  Files retired_;
  std::uint64_t number_ = 0;
  std::vector<std::uint32_t> free_;
  std::vector<Owed> owed_;
  std::size_t used_ = 0;
};

}  // namespace ember::inline v0::ipc
