// What processes say to each other: one request and one reply for each connection, of fixed sizes,
// and the pieces that a reply announces.
// Both may come from anywhere and are checked field by field.
#pragma once

#include <cstdint>
#include <span>

#include "ember/ipc/record.h"

namespace ember::inline v0::ipc {

enum class Verb : std::uint16_t {
  lease = 1,  ///< the sender wants to use what the record names
  give_back,  ///< ... no longer uses what it leased
  forward,    ///< ... wants another handle of what it leased, for a third process
};

/// Which descriptors follow a reply, in this order. Senders of requests want the memory's or not.
enum Files : std::uint32_t { kMemoryFile = 1, kWordsFile = 2 };

struct Request {
  static constexpr std::uint32_t kMagic = 0x71696d65;

  std::uint32_t magic = kMagic;
  std::uint16_t version = Record::kVersion;
  Verb verb = Verb::lease;
  std::uint64_t start = 0;  ///< of the sender's process
  std::uint64_t lease = 0;  ///< its number, which the sender chose
  std::uint32_t wants = 0;  ///< lease: kMemoryFile, or nothing
  std::uint32_t zero = 0;
  std::uint64_t words = 0;  ///< lease: which of the owner's files of words the sender has
  Record record;            ///< lease
};
static_assert(sizeof(Request) == 216);

enum class Answer : std::uint16_t {
  granted = 1,
  malformed,  ///< the request makes no sense
  unknown,    ///< nothing by that handle: forged, or closed
  received,   ///< the handle was used as often as it was meant for
  reset,      ///< the device was reset since
  not_yours,  ///< another process's lease
  exhausted,  ///< no memory, or no descriptors
};

struct Reply {
  static constexpr std::uint32_t kMagic = 0x72696d65;

  std::uint32_t magic = kMagic;
  std::uint16_t version = Record::kVersion;
  Answer answer = Answer::malformed;
  std::uint64_t lease = 0;   ///< as in the request
  std::uint32_t files = 0;   ///< of Files
  std::uint32_t word = 0;    ///< in the owner's words
  std::uint64_t value = 0;   ///< which it must have; zero: the memory is ready
  std::uint64_t words = 0;   ///< which file of words; it follows if the sender does not have it
  std::uint64_t before = 0;  ///< bytes in front of the memory in the first piece
  std::uint32_t pieces = 0;  ///< how many follow, in messages of their own
  std::uint32_t zero = 0;
  Record record;  ///< forward
};
static_assert(sizeof(Reply) == 232);

/// Where memory lies behind a range of addresses.
struct Piece {
  std::uint64_t offset = 0;  ///< in its file
  std::uint64_t bytes = 0;
  std::uint32_t file = 0;  ///< which of the descriptors that came with these messages so far
  std::uint32_t zero = 0;
};
struct Pieces {
  static constexpr std::uint32_t kMagic = 0x73696d65;
  static constexpr std::size_t kCapacity = 128;  ///< pieces, and descriptors, of one message
  static constexpr std::uint32_t kMost = 4096;   ///< pieces of one memory

  std::uint32_t magic = kMagic;
  std::uint16_t version = Record::kVersion;
  std::uint16_t count = 0;
  std::array<Piece, kCapacity> piece{};
};
static_assert(sizeof(Pieces) == 8 + 24 * Pieces::kCapacity);

/// False for anything that no process of this version sends. The record of a lease is checked too.
bool parse_request(std::span<const std::uint8_t> bytes, Request& out);
bool parse_reply(std::span<const std::uint8_t> bytes, Reply& out);
/// `files`: how many descriptors have come with them.
bool parse_pieces(std::span<const std::uint8_t> bytes, std::size_t files, Pieces& out);

}  // namespace ember::inline v0::ipc
