#include "ember/ipc/words.h"

#include <algorithm>
#include <string>

#include "ember/runtime/host_wait.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/simulation.h"

namespace ember::inline v0::ipc {

Status WordsFile::make(Ref<WordsFile>& out) {
  Ref<WordsFile> made(new WordsFile);
  EMBER_TRY(make_shared_file("ember-words", kBytes, made->file_));
  EMBER_TRY(commit(made->file_, 0, kBytes));
  EMBER_TRY(made->mapping_.map(made->file_, kBytes));
  out = std::move(made);
  return {};
}

Status WordsFile::map(const File& file, Ref<WordsFile>& out) {
  Ref<WordsFile> made(new WordsFile);
  EMBER_TRY(made->mapping_.map(file, kBytes, true));
  out = std::move(made);
  return {};
}

WordsFile::~WordsFile() {
  {
    const MutexLock lock(mutex_);
    if (!opened_) return;
  }
  if (driver::Driver* driver = cuda::driver_if_made()) (void)driver->words_close(mapping_.data());
}

Status WordsFile::open_with(driver::Driver& driver) {
  const MutexLock lock(mutex_);
  if (opened_) return {};
  EMBER_TRY(driver.words_open(mapping_.data(), mapping_.bytes()));
  opened_ = true;
  return {};
}

driver::Word* WordsFile::cell(std::uint64_t index) const noexcept {
  static_assert(sizeof(driver::Word) == 8 && driver::Word::is_always_lock_free);
  if (index >= mapping_.bytes() / (kCellWords * sizeof(driver::Word))) return nullptr;
  return reinterpret_cast<driver::Word*>(mapping_.data()) + index * kCellWords;
}

Status finish_if_seeded(const driver::StreamHandle& stream) noexcept {
  return sim::seeded() ? cuda::HostWait::stream(cuda::WaitKind::library, stream) : Status();
}

Status WordPool::take(Cell& out) {
  if (!file_) {
    EMBER_TRY(WordsFile::make(file_));
    ++number_;
    for (std::size_t i = WordsFile::kCells; i-- > 0;)
      free_.push_back(static_cast<std::uint32_t>(i));
  }
  if (free_.empty()) (void)settle();
  if (free_.empty())
    return Status(Code::launch_out_of_resources,
                  "all " + std::to_string(WordsFile::kCells) +
                      " events for other processes, and memory sent to them that is not "
                      "ready yet, are in use by this process");
  const std::uint32_t index = free_.back();
  free_.pop_back();
  ++used_;
  out = {index, file_->cell(index)};
  return {};
}

void WordPool::give_back(const Cell& cell) noexcept {
  // What was lost stays so for those that wait there.
  if (is_usable(cell.word->load(std::memory_order_relaxed))) free_.push_back(cell.index);
  if (--used_ != 0) return;
  retire(std::move(file_));
  free_.clear();
}

void WordPool::give_back_at(const Cell& cell, std::uint64_t value) {
  if (cell.word->load(std::memory_order_acquire) >= value) return give_back(cell);
  owed_.push_back({cell, value});
}

bool WordPool::settle() noexcept {
  const auto come = [](const Owed& owed) {
    return owed.cell.word->load(std::memory_order_acquire) >= owed.value;
  };
  const auto rest =
      std::partition(owed_.begin(), owed_.end(), [&](const Owed& owed) { return !come(owed); });
  const std::vector<Owed> done(rest, owed_.end());
  owed_.erase(rest, owed_.end());
  for (const Owed& owed : done) give_back(owed.cell);
  return !owed_.empty();
}

}  // namespace ember::inline v0::ipc
