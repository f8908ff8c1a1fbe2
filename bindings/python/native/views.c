/* SPDX-License-Identifier: Apache-2.0
 *
 * weir._views: what cffi can't do - the buffer protocol with a count of its users, and DLPack capsules.
 *
 * A Pin stands for a lease's right to its memory. A ViewBase is a typed range of that memory. Whatever has been
 * made of a view (a memoryview, a NumPy array, a tensor from a capsule) counts on the pin and keeps the view, and
 * through it the lease, alive. A pin that is in use can't be closed, and a closed one gives nothing out: so no code
 * reaches memory that the pool has taken back. All of this runs under the GIL but for the capsules' deleters, which
 * take it.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "dlpack.h"

#if PY_VERSION_HEX < 0x030A0000
static PyObject *Py_NewRef(PyObject *object) {
  Py_INCREF(object);
  return object;
}
#endif

#define MAX_DIMENSIONS 32

/* ---- Pin ---- */

typedef struct {
  PyObject_HEAD Py_ssize_t users;
  int closed;
} Pin;

static PyObject *pin_close(Pin *self, PyObject *unused) {
  (void)unused;
  if (self->users > 0) {
    PyErr_Format(PyExc_BufferError,
                 "%zd arrays or memory views of this lease are still alive; delete them (or copy "
                 "what they hold) before "
                 "the lease is released",
                 self->users);
    return NULL;
  }
  const int now = !self->closed;
  self->closed = 1;
  return PyBool_FromLong(now);
}

static PyObject *pin_reopen(Pin *self, PyObject *unused) {
  (void)unused;
  self->closed = 0;
  Py_RETURN_NONE;
}

static PyObject *pin_add(Pin *self, PyObject *unused) {
  (void)unused;
  if (self->closed) {
    PyErr_SetString(PyExc_ValueError,
                    "the lease has been released: its memory is not there any more");
    return NULL;
  }
  self->users++;
  Py_RETURN_NONE;
}

static PyObject *pin_drop(Pin *self, PyObject *unused) {
  (void)unused;
  if (self->users > 0) self->users--;
  Py_RETURN_NONE;
}

static PyObject *pin_users(Pin *self, void *unused) {
  (void)unused;
  return PyLong_FromSsize_t(self->users);
}

static PyObject *pin_closed(Pin *self, void *unused) {
  (void)unused;
  return PyBool_FromLong(self->closed);
}

static PyMethodDef pin_methods[] = {
    {"close", (PyCFunction)pin_close, METH_NOARGS,
     "Ends the pin, and tells whether this call did; BufferError while anything uses it."},
    {"reopen", (PyCFunction)pin_reopen, METH_NOARGS, "Undoes close()."},
    {"add", (PyCFunction)pin_add, METH_NOARGS, "Counts a user; ValueError once closed."},
    {"drop", (PyCFunction)pin_drop, METH_NOARGS, "Undoes add()."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef pin_getset[] = {
    {"users", (getter)pin_users, NULL, "How many use it.", NULL},
    {"closed", (getter)pin_closed, NULL, "Whether it is closed.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyTypeObject PinType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "weir._views.Pin",
    .tp_basicsize = sizeof(Pin),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "A lease's right to its memory, and how many use it.",
    .tp_methods = pin_methods,
    .tp_getset = pin_getset,
    .tp_new = PyType_GenericNew,
};

/* ---- ViewBase ---- */

typedef struct {
  PyObject_HEAD Pin *pin;
  PyObject *owner; /* the lease; kept alive */
  void *address;
  Py_ssize_t bytes;
  Py_ssize_t item;
  int readonly;
  int cpu; /* the CPU may dereference it: the buffer protocol is allowed */
  int dimensions;
  char format[8]; /* of the struct module; "" if it has none for this type */
  Py_ssize_t shape[MAX_DIMENSIONS];
  Py_ssize_t strides[MAX_DIMENSIONS];
} View;

static int view_traverse(View *self, visitproc visit, void *arg) {
  Py_VISIT(self->owner);
  return 0;
}

static int view_clear(View *self) {
  Py_CLEAR(self->owner);
  return 0;
}

static void view_dealloc(View *self) {
  PyObject_GC_UnTrack(self);
  view_clear(self);
  Py_CLEAR(self->pin);
  Py_TYPE(self)->tp_free((PyObject *)self);
}

/* The shape, row-major strides, and whether its bytes are exactly those of the view. */
static int take_shape(View *self, PyObject *shape) {
  PyObject *sequence = PySequence_Fast(shape, "the shape must be a sequence of integers");
  if (sequence == NULL) return -1;
  Py_ssize_t count = PySequence_Fast_GET_SIZE(sequence), bytes = self->item;
  if (count > MAX_DIMENSIONS) {
    PyErr_Format(PyExc_ValueError, "a shape of %zd dimensions; there can be %d", count,
                 MAX_DIMENSIONS);
    count = -1;
  }
  for (Py_ssize_t i = 0; i < count; i++) {
    Py_ssize_t length =
        PyNumber_AsSsize_t(PySequence_Fast_GET_ITEM(sequence, i), PyExc_OverflowError);
    if (length < 0 || (length > 0 && bytes > PY_SSIZE_T_MAX / length)) {
      if (!PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "a dimension of %zd in a shape", length);
      count = -1;
      break;
    }
    self->shape[i] = length;
    bytes *= length;
  }
  Py_DECREF(sequence);
  if (count < 0) return -1;
  if (bytes != self->bytes) {
    PyErr_Format(PyExc_ValueError, "the shape takes %zd bytes, the view has %zd", bytes,
                 self->bytes);
    return -1;
  }
  self->dimensions = (int)count;
  for (Py_ssize_t i = count, stride = self->item; i-- > 0; stride *= self->shape[i])
    self->strides[i] = stride;
  return 0;
}

static PyObject *view_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
  (void)keywords;
  PyObject *pin, *owner, *shape;
  unsigned long long address;
  Py_ssize_t bytes, item;
  const char *format;
  int readonly, cpu;
  if (!PyArg_ParseTuple(arguments, "O!OKnnsppO", &PinType, &pin, &owner, &address, &bytes, &item,
                        &format, &readonly, &cpu, &shape))
    return NULL;
  if (bytes < 0 || item <= 0 || strlen(format) >= sizeof((View *)NULL)->format) {
    PyErr_SetString(PyExc_ValueError, "a view of no valid size or format");
    return NULL;
  }
  View *self = (View *)type->tp_alloc(type, 0);
  if (self == NULL) return NULL;
  self->pin = (Pin *)Py_NewRef(pin);
  self->owner = Py_NewRef(owner);
  self->address = (void *)(uintptr_t)address;
  self->bytes = bytes;
  self->item = item;
  self->readonly = readonly;
  self->cpu = cpu;
  strcpy(self->format, format);
  if (take_shape(self, shape) != 0) {
    Py_DECREF(self);
    return NULL;
  }
  return (PyObject *)self;
}

/* Python does the synchronising before the bytes are looked at (View.__buffer__ does not exist before 3.12): the lease's method
 * is called here, so that memoryview(view) and numpy.asarray(view) see finished bytes too. */
static int wait_for_bytes(View *self) {
  PyObject *answer = PyObject_CallMethod(self->owner, "_ready", NULL);
  if (answer == NULL) return -1;
  Py_DECREF(answer);
  return 0;
}

/* Row-major memory is column-major too where at most one dimension counts, or nothing is there. */
static int is_column_major(const View *self) {
  int longer = 0;
  for (int i = 0; i < self->dimensions; i++) longer += self->shape[i] > 1;
  return longer <= 1 || self->bytes == 0;
}

static int view_getbuffer(View *self, Py_buffer *buffer, int flags) {
  buffer->obj = NULL;
  if (!self->cpu) {
    PyErr_SetString(PyExc_BufferError,
                    "the CPU can't reach this memory; use DLPack or __cuda_array_interface__");
    return -1;
  }
  if (self->readonly && (flags & PyBUF_WRITABLE)) {
    PyErr_SetString(PyExc_BufferError, "a READ lease gives read-only memory");
    return -1;
  }
  if ((flags & PyBUF_FORMAT) && self->format[0] == '\0') {
    PyErr_SetString(
        PyExc_BufferError,
        "Python has no format for elements of this type; use DLPack, or view them as uint16");
    return -1;
  }
  if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && !is_column_major(self)) {
    PyErr_SetString(PyExc_BufferError, "a view is row-major; column-major memory was asked for");
    return -1;
  }
  PyObject *counted = pin_add(self->pin, NULL);
  if (counted == NULL) return -1;
  Py_DECREF(counted);
  if (wait_for_bytes(self) != 0) {
    Py_DECREF(pin_drop(self->pin, NULL));
    return -1;
  }
  buffer->buf = self->address;
  buffer->obj = Py_NewRef((PyObject *)self);
  buffer->len = self->bytes;
  buffer->readonly = self->readonly;
  buffer->itemsize = (flags & PyBUF_FORMAT) ? self->item : (flags & PyBUF_ND) ? self->item : 1;
  buffer->format = (flags & PyBUF_FORMAT) ? self->format : NULL;
  buffer->ndim = (flags & PyBUF_ND) ? self->dimensions : 1;
  buffer->shape = (flags & PyBUF_ND) ? self->shape : NULL;
  buffer->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? self->strides : NULL;
  buffer->suboffsets = NULL;
  buffer->internal = NULL;
  return 0;
}

static void view_releasebuffer(View *self, Py_buffer *buffer) {
  (void)buffer;
  Py_DECREF(pin_drop(self->pin, NULL));
}

static PyBufferProcs view_buffer = {(getbufferproc)view_getbuffer,
                                    (releasebufferproc)view_releasebuffer};

/* ---- DLPack ---- */

/* What a capsule's consumer holds: a view that is counted, and room for the shape. */
typedef struct {
  union {
    DLManagedTensor plain;
    DLManagedTensorVersioned versioned;
  } as;
  View *view;
  int64_t shape[MAX_DIMENSIONS];
  int64_t strides[MAX_DIMENSIONS];
} Managed;

/* Consumers call this on any thread, and may do so when the interpreter has ended: then the process ends too. */
static void managed_free(Managed *managed) {
  if (!Py_IsInitialized()) return;
  PyGILState_STATE state = PyGILState_Ensure();
  Py_DECREF(pin_drop(managed->view->pin, NULL));
  Py_DECREF(managed->view);
  PyMem_RawFree(managed);
  PyGILState_Release(state);
}

static void plain_deleter(DLManagedTensor *tensor) { managed_free((Managed *)tensor->manager_ctx); }
static void versioned_deleter(DLManagedTensorVersioned *tensor) {
  managed_free((Managed *)tensor->manager_ctx);
}

/* A capsule that was not taken is freed with its object; one that was taken has been renamed. */
static void capsule_destructor(PyObject *capsule) {
  static const char *const names[] = {"dltensor", "dltensor_versioned"};
  for (int i = 0; i < 2; i++) {
    if (!PyCapsule_IsValid(capsule, names[i])) continue;
    void *tensor = PyCapsule_GetPointer(capsule, names[i]);
    managed_free((Managed *)(i == 0 ? ((DLManagedTensor *)tensor)->manager_ctx
                                    : ((DLManagedTensorVersioned *)tensor)->manager_ctx));
  }
}

static PyObject *view_capsule(View *self, PyObject *arguments) {
  int versioned, device_type, device_id, code;
  if (!PyArg_ParseTuple(arguments, "piii", &versioned, &device_type, &device_id, &code))
    return NULL;
  Managed *managed = PyMem_RawCalloc(1, sizeof *managed);
  if (managed == NULL) return PyErr_NoMemory();
  PyObject *counted = pin_add(self->pin, NULL);
  if (counted == NULL) {
    PyMem_RawFree(managed);
    return NULL;
  }
  Py_DECREF(counted);
  managed->view = (View *)Py_NewRef((PyObject *)self);
  for (int i = 0; i < self->dimensions; i++) {
    managed->shape[i] = self->shape[i];
    managed->strides[i] = self->strides[i] / self->item;
  }
  const DLTensor tensor = {.data = self->address,
                           .device = {device_type, device_id},
                           .ndim = self->dimensions,
                           .dtype = {(uint8_t)code, (uint8_t)(self->item * 8), 1},
                           .shape = managed->shape,
                           .strides = managed->strides,
                           .byte_offset = 0};
  void *content;
  if (versioned) {
    managed->as.versioned =
        (DLManagedTensorVersioned){.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
                                   .manager_ctx = managed,
                                   .deleter = versioned_deleter,
                                   .flags = self->readonly ? DLPACK_FLAG_BITMASK_READ_ONLY : 0,
                                   .dl_tensor = tensor};
    content = &managed->as.versioned;
  } else {
    managed->as.plain =
        (DLManagedTensor){.dl_tensor = tensor, .manager_ctx = managed, .deleter = plain_deleter};
    content = &managed->as.plain;
  }
  PyObject *capsule =
      PyCapsule_New(content, versioned ? "dltensor_versioned" : "dltensor", capsule_destructor);
  if (capsule == NULL) managed_free(managed);
  return capsule;
}

/* ---- attributes ---- */

static PyObject *view_shape(View *self, void *unused) {
  (void)unused;
  PyObject *shape = PyTuple_New(self->dimensions);
  for (int i = 0; shape != NULL && i < self->dimensions; i++) {
    PyObject *length = PyLong_FromSsize_t(self->shape[i]);
    if (length == NULL)
      Py_CLEAR(shape);
    else
      PyTuple_SET_ITEM(shape, i, length);
  }
  return shape;
}

static PyObject *view_nbytes(View *self, void *unused) {
  (void)unused;
  return PyLong_FromSsize_t(self->bytes);
}

static PyObject *view_readonly(View *self, void *unused) {
  (void)unused;
  return PyBool_FromLong(self->readonly);
}

static PyObject *view_owner(View *self, void *unused) {
  (void)unused;
  return Py_NewRef(self->owner == NULL ? Py_None : self->owner);
}

static PyObject *view_address(View *self, void *unused) {
  (void)unused;
  if (self->pin->closed) {
    PyErr_SetString(PyExc_ValueError,
                    "the lease has been released: its memory is not there any more");
    return NULL;
  }
  return PyLong_FromVoidPtr(self->address);
}

static PyMethodDef view_methods[] = {
    {"_capsule", (PyCFunction)view_capsule, METH_VARARGS,
     "A DLPack capsule: versioned, device type, device id, type code."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef view_getset[] = {
    {"shape", (getter)view_shape, NULL, "Its dimensions.", NULL},
    {"nbytes", (getter)view_nbytes, NULL, "Its length in bytes.", NULL},
    {"readonly", (getter)view_readonly, NULL, "Whether it may be written to.", NULL},
    {"lease", (getter)view_owner, NULL, "The lease it belongs to.", NULL},
    {"address", (getter)view_address, NULL,
     "Where its first byte is, for code on the stream's device.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyTypeObject ViewType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "weir._views.ViewBase",
    .tp_basicsize = sizeof(View),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "A typed range of leased memory.",
    .tp_methods = view_methods,
    .tp_getset = view_getset,
    .tp_as_buffer = &view_buffer,
    .tp_traverse = (traverseproc)view_traverse,
    .tp_clear = (inquiry)view_clear,
    .tp_dealloc = (destructor)view_dealloc,
    .tp_new = view_new,
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT,
                                    "weir._views",
                                    "The buffer protocol and DLPack over leased memory.",
                                    -1,
                                    NULL,
                                    NULL,
                                    NULL,
                                    NULL,
                                    NULL};

PyMODINIT_FUNC PyInit__views(void) {
  if (PyType_Ready(&PinType) < 0 || PyType_Ready(&ViewType) < 0) return NULL;
  PyObject *self = PyModule_Create(&module);
  if (self == NULL) return NULL;
  if (PyModule_AddObject(self, "Pin", Py_NewRef((PyObject *)&PinType)) < 0 ||
      PyModule_AddObject(self, "ViewBase", Py_NewRef((PyObject *)&ViewType)) < 0 ||
      PyModule_AddIntConstant(self, "MAX_DIMENSIONS", MAX_DIMENSIONS) < 0) {
    Py_DECREF(self);
    return NULL;
  }
  return self;
}
