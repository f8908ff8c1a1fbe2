# SPDX-License-Identifier: Apache-2.0
# The cffi module that the build makes of the public headers; its types are C's.
from typing import Any

ffi: Any
lib: Any
