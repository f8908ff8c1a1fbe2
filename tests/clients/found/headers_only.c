/* SPDX-License-Identifier: Apache-2.0
 *
 * What who writes a backend compiles with: the one header. Compiling is the test.
 */
#include <weir/backend.h>

int weir_client_has_headers(void);
int weir_client_has_headers(void) { return WEIR_VERSION_MAJOR >= 0; }
