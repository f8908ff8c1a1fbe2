# SPDX-License-Identifier: Apache-2.0
"""The parts of scripts/make-man: troff, the headers' comments, the C API's pages, and the programs' pages."""
