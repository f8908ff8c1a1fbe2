# SPDX-License-Identifier: Apache-2.0
"""The parts of scripts/gpu-check. Python's standard library only: they run where nothing else is installed."""
