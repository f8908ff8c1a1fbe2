// SPDX-License-Identifier: Apache-2.0

package weir

// Names of operations and their numbers. A name crosses to C once; from then on the pool knows its number here.

/*
#include "shim.h"
*/
import "C"

import (
	"strings"
	"sync"
	"unsafe"
)

// Names beyond so many share a number, and the library counts each time it gives that.
const ownOperationIDs = 65536

type operationNames struct {
	sync.RWMutex
	ids map[string]uint32 // of names that have a number of their own
}

// OperationID is the number of an operation's name in this pool: 1 and up, the same for the same name as long as the pool
// lives, for [AcquireOptions] and [Operation]. They take names too, and look the number up. A name has 1 to 1023 bytes, none of
// them 0. 65,536 names of a pool have numbers of their own, and all further ones share one ([PoolStats].SharedOperationIDs).
func (p *Pool) OperationID(name string) (uint32, error) {
	return p.operationID("operation id", name)
}

func (p *Pool) operationID(op, name string) (uint32, error) {
	p.names.RLock()
	id, known := p.names.ids[name]
	p.names.RUnlock()
	if known {
		return id, nil
	}
	if strings.IndexByte(name, 0) >= 0 {
		return 0, refused(op, ErrInvalidArgument, "the name of an operation has a byte 0")
	}
	if err := p.enter(op); err != nil {
		return 0, err
	}
	defer p.leave()
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	var number C.uint32_t
	if err := failed(op, C.weirgo_operation_id(C.uintptr_t(p.handle), text, &number)); err != nil {
		return 0, err
	}
	if number <= ownOperationIDs {
		p.names.Lock()
		defer p.names.Unlock()
		if p.names.ids == nil {
			p.names.ids = map[string]uint32{}
		}
		p.names.ids[name] = uint32(number)
	}
	return uint32(number), nil
}

// operationNumber is what C is given: the number if there is one, else that of the name; 0 is no operation.
func (p *Pool) operationNumber(op, name string, id uint32) (C.uint32_t, error) {
	if id != 0 || name == "" {
		return C.uint32_t(id), nil
	}
	number, err := p.operationID(op, name)
	return C.uint32_t(number), err
}
