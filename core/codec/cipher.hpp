// SPDX-License-Identifier: Apache-2.0
//
// AES-256-XTS over the units of a store (IEEE 1619; the tweak is the unit's number in the store's line). CipherKey: a
// random key that never leaves memory, kept out of swap and core dumps as far as the system lets it, wiped at the
// end. Cipher: what one thread needs to use it. Its contexts are libcrypto's, in libcrypto's heap, and hold the round keys: those
// are wiped as they are freed, but can be in swap, in dumps and in forked children before. A library has no means against that:
// libcrypto's allocator and its secure heap are the program's.
//
// Bytes at rest only: XTS hides content, it does not notice damage.
#pragma once

#include "core/base/status.hpp"

#include <cstdint>

struct evp_cipher_ctx_st;

namespace weir::codec {

class CipherKey {
 public:
  CipherKey() = default;
  ~CipherKey();
  CipherKey(const CipherKey &) = delete;
  CipherKey &operator=(const CipherKey &) = delete;

  /// A fresh key. NOT_SUPPORTED in a build without libcrypto.
  Status make();
  const unsigned char *bytes() const noexcept { return key_; }

 private:
  unsigned char *key_ = nullptr;  ///< a page of its own
};

class Cipher {
 public:
  static constexpr uint64_t unit_bytes = 4096;  ///< under one tweak

  Cipher() = default;
  ~Cipher();
  Cipher(const Cipher &) = delete;
  Cipher &operator=(const Cipher &) = delete;

  Status start(const CipherKey &key);
  /// Whole units, the first of which is number `unit` of the line. `from` and `to` may be the same. False: failed.
  bool encrypt(uint64_t unit, const unsigned char *from, unsigned char *to,
               uint64_t bytes) noexcept {
    return run(encrypt_, unit, from, to, bytes);
  }
  bool decrypt(uint64_t unit, const unsigned char *from, unsigned char *to,
               uint64_t bytes) noexcept {
    return run(decrypt_, unit, from, to, bytes);
  }

 private:
  static bool run(evp_cipher_ctx_st *context, uint64_t unit, const unsigned char *from,
                  unsigned char *to, uint64_t bytes) noexcept;

  evp_cipher_ctx_st *encrypt_ = nullptr, *decrypt_ = nullptr;
};

}  // namespace weir::codec
