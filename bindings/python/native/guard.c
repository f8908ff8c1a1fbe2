/* SPDX-License-Identifier: Apache-2.0
 *
 * weir/__init__.*.so: what `import weir` runs first. The project `weir` of PyPI, which is another project, has files of the same
 * folder, and the one installed last writes over the other's __init__.py; but Python prefers an extension to a source file of
 * the same name, so this file is found whichever came last. It hands the module to weir._guard, which looks what is here
 * and runs __init__.py. All that can be told in Python is told there.
 */
#include <Python.h>

static int start(PyObject *module) {
  PyObject *guard = PyImport_ImportModule("weir._guard");
  if (guard == NULL) return -1;
  PyObject *done = PyObject_CallMethod(guard, "start", "O", module);
  Py_DECREF(guard);
  if (done == NULL) return -1;
  Py_DECREF(done);
  return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, start},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "weir",
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_weir(void) { return PyModuleDef_Init(&definition); }
