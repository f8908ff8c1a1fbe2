# SPDX-License-Identifier: Apache-2.0
"""The parts of scripts/check-abi: reading the public headers, the record of their layout, the rules of what may change,
libabigail's second opinion, and the guard's own test. docs/abi.md says what is promised."""
