// SPDX-License-Identifier: Apache-2.0
//
// The cipher by libcrypto; without it, a refusal that says so.

#include "core/codec/cipher.hpp"

#include "core/codec/little_endian.hpp"

#if defined(WEIR_HAVE_CRYPTO)
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#endif

namespace weir::codec {

#if defined(WEIR_HAVE_CRYPTO)

namespace {

constexpr size_t key_page = 4096;
constexpr int key_bytes = 64;

Status crypto_error(const char *what) {
  return fail(WEIR_ERROR_NOT_SUPPORTED, {.tier = WEIR_TIER_STORAGE},
              "storage: encryption: libcrypto's %s failed", what);
}

}  // namespace

CipherKey::~CipherKey() {
  if (key_ == nullptr) return;
  OPENSSL_cleanse(key_, key_page);
  munmap(key_, key_page);
}

Status CipherKey::make() {
  void *page = mmap(nullptr, key_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, {.tier = WEIR_TIER_STORAGE, .native = errno},
                "storage: no memory for a key: %s", strerrordesc_np(errno));
  }
  key_ = static_cast<unsigned char *>(page);
  // As far as the system lets us; a child of fork() has no use for it either.
  (void)mlock(page, key_page);
  (void)madvise(page, key_page, MADV_DONTDUMP);
  (void)madvise(page, key_page, MADV_WIPEONFORK);
  if (RAND_priv_bytes(key_, key_bytes) != 1) return crypto_error("RAND_priv_bytes");
  return {};
}

Cipher::~Cipher() {
  // They hold the key's schedule; freeing wipes it.
  EVP_CIPHER_CTX_free(encrypt_);
  EVP_CIPHER_CTX_free(decrypt_);
}

Status Cipher::start(const CipherKey &key) {
  encrypt_ = EVP_CIPHER_CTX_new();
  decrypt_ = EVP_CIPHER_CTX_new();
  if (encrypt_ == nullptr || decrypt_ == nullptr)
    return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, "storage: no memory for a cipher");
  if (EVP_EncryptInit_ex(encrypt_, EVP_aes_256_xts(), nullptr, key.bytes(), nullptr) != 1)
    return crypto_error("EVP_EncryptInit_ex");
  if (EVP_DecryptInit_ex(decrypt_, EVP_aes_256_xts(), nullptr, key.bytes(), nullptr) != 1)
    return crypto_error("EVP_DecryptInit_ex");
  return {};
}

bool Cipher::run(EVP_CIPHER_CTX *context, uint64_t unit, const unsigned char *from,
                 unsigned char *to, uint64_t bytes) noexcept {
  for (uint64_t at = 0; at < bytes; at += unit_bytes, ++unit) {
    unsigned char tweak[16] = {};
    store_little(tweak, unit);
    int count = 0;
    if (EVP_CipherInit_ex(context, nullptr, nullptr, nullptr, tweak, -1) != 1 ||
        EVP_CipherUpdate(context, to + at, &count, from + at, static_cast<int>(unit_bytes)) != 1 ||
        count != static_cast<int>(unit_bytes)) {
      return false;
    }
  }
  return true;
}

#else

CipherKey::~CipherKey() = default;
Status CipherKey::make() {
  return fail(WEIR_ERROR_NOT_SUPPORTED, {.tier = WEIR_TIER_STORAGE},
              "storage: encryption needs libcrypto (OpenSSL 1.1.1 or later), which this build of "
              "Weir was made without");
}
Cipher::~Cipher() = default;
Status Cipher::start(const CipherKey &) {
  return fail(WEIR_ERROR_NOT_SUPPORTED, "storage: this build of Weir was made without libcrypto");
}
bool Cipher::run(evp_cipher_ctx_st *, uint64_t, const unsigned char *, unsigned char *,
                 uint64_t) noexcept {
  return false;
}

#endif

}  // namespace weir::codec
