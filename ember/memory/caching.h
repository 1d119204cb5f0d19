// The back end that keeps free memory: best fit, splitting and merging of chapter 8.
#pragma once

#include <atomic>

#include "ember/memory/back_end.h"
#include "ember/memory/settings.h"

namespace ember::inline v0::memory {

/// Blocks are reused by work of the same stream and pool only, best fit first, lowest address among
/// equals.
class CachingBackEnd final : public BackEnd {
 public:
  Caps caps() const noexcept override { return {.counts = true, .keeps = true}; }
  std::size_t block_bytes(std::size_t requested) const noexcept override {
    if (rounds_up_.load(std::memory_order_relaxed)) [[unlikely]]
      return settings().block_bytes(requested);
    return round_size(requested);
  }
  std::size_t segment_bytes(std::size_t size) const noexcept override {
    return settings().segment_bytes(size);
  }
  bool oversize(std::size_t bytes) const noexcept override { return settings().oversize(bytes); }
  Block* take(Ledger& ledger, const Request& request) override EMBER_REQUIRES(ledger.mutex);
  void fit(Ledger& ledger, Block* whole, const Request& request) override
      EMBER_REQUIRES(ledger.mutex);
  bool keep(Ledger& ledger, Block* block) override EMBER_REQUIRES(ledger.mutex);
  Growth begin_growth(Ledger& ledger, const Request& request) override EMBER_REQUIRES(ledger.mutex);
  Block* end_growth(Ledger& ledger, const Growth& growth) override EMBER_REQUIRES(ledger.mutex);
  void cancel_growth(Ledger& ledger, const Growth& growth) override EMBER_REQUIRES(ledger.mutex);
  Block* set_unmapped(Ledger& ledger, Block* block) override EMBER_REQUIRES(ledger.mutex);
  void trim(Ledger& ledger, Pool& pool, std::vector<Block*>& out) override
      EMBER_REQUIRES(ledger.mutex);
  void settle(Ledger& ledger) override EMBER_REQUIRES(ledger.mutex) {
    if (last_.waits) insert_last(ledger);
    last_.block = nullptr;
  }
  void forget() noexcept override { last_ = {}; }
  void collect(Ledger& ledger, Pool& pool, std::size_t bytes, std::vector<Block*>& out) override
      EMBER_REQUIRES(ledger.mutex);
  void release_oversize(Ledger& ledger, const Request& request, std::vector<Block*>& out) override
      EMBER_REQUIRES(ledger.mutex);
  void freed(Ledger& ledger, Block* block) override EMBER_REQUIRES(ledger.mutex);
  void apply(Ledger& ledger, const Settings& settings) override EMBER_REQUIRES(ledger.mutex);

 private:
  const Settings& settings() const noexcept { return *settings_.load(std::memory_order_acquire); }
  bool splits(const Block& block, std::size_t size) const noexcept;
  void count_oversize(Ledger& ledger, Block* block) EMBER_REQUIRES(ledger.mutex);
  Block* insert(Ledger& ledger, Block* block, SplitChange& change) const
      EMBER_REQUIRES(ledger.mutex);
  static void take_chunks(Ledger& ledger, Block* block, std::vector<Block*>& out)
      EMBER_REQUIRES(ledger.mutex);
  void insert_last(Ledger& ledger) EMBER_REQUIRES(ledger.mutex);

  // See Note [The same block again] in caching.cpp.
  struct Last {
    Block* block = nullptr;
    std::size_t size = 0;  // of the request
    SplitChange change;    // what taking it did to the free blocks
    bool waits = false;    // whether it has been freed
  };
  Last last_;

  // Written under the ledger's lock, read without.
  std::atomic<const Settings*> settings_{&default_settings()};
  std::atomic<bool> rounds_up_{false};
  bool plain_ = true;           // Settings::plain()
  std::uint64_t searches_ = 0;  // of free blocks, while garbage is collected
};

}  // namespace ember::inline v0::memory
