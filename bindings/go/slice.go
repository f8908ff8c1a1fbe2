// SPDX-License-Identifier: Apache-2.0

package weir

// Typed views of memory. They are of the library's memory and last as long as the lease or view they are from.

import "unsafe"

// Scalar is what leased memory can be viewed as: types without pointers.
type Scalar interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64 | ~complex64 | ~complex128
}

// Memory is a [Lease] or a [View].
type Memory interface {
	Len() int
	Bytes(i int) ([]byte, error)
}

// Slice is the memory of the i-th use of a lease or view as elements of T, valid as long as its Bytes are. It must begin at
// a multiple of T's alignment and be whole elements.
func Slice[T Scalar](memory Memory, i int) ([]T, error) {
	bytes, err := memory.Bytes(i)
	if err != nil {
		return nil, err
	}
	var element T
	if size := int(unsafe.Sizeof(element)); len(bytes)%size != 0 {
		return nil, refused("slice", ErrInvalidArgument, "%d bytes are no whole number of elements of %d", len(bytes), size)
	}
	if len(bytes) == 0 {
		return nil, nil
	}
	first := unsafe.Pointer(&bytes[0])
	if align := unsafe.Alignof(element); uintptr(first)%align != 0 {
		return nil, refused("slice", ErrInvalidArgument, "address %p is no multiple of %d", first, align)
	}
	return unsafe.Slice((*T)(first), len(bytes)/int(unsafe.Sizeof(element))), nil
}

// AsBytes is the memory of a slice as bytes, for [Buffer.ReadAt], [Buffer.WriteAt] and [Transfer].
func AsBytes[T Scalar](elements []T) []byte {
	if len(elements) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&elements[0])), len(elements)*int(unsafe.Sizeof(elements[0])))
}

func bytesAt(address, length uint64) []byte {
	return unsafe.Slice((*byte)(foreign(uintptr(address))), int(length))
}
