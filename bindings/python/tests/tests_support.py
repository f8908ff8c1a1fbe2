# SPDX-License-Identifier: Apache-2.0
"""What tests share beside the fixtures."""

#: The host backend's granule, and so a page of the pools of these tests.
PAGE = 2 << 20
