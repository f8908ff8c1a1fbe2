// SPDX-License-Identifier: Apache-2.0

package weir

import (
	"bytes"
	"testing"
)

func TestWhatWasLearnedIsSavedAndLoaded(t *testing.T) {
	// The least that is learned in, of which next to nothing is taken.
	learning := func(options *PoolOptions) {
		options.Policy = "auto"
		options.Devices[0].Budget = 64 << 20
	}
	options := "host.memory=80M;host.granule=16K;host.granule_large=0"
	w := newWorld(t, setup{options: options, devicePages: 4, hostPages: 64, background: true, change: learning})
	_, err := w.pool.OperationID("layer")
	ok(t, err)
	saved, err := w.pool.SavePolicy()
	ok(t, err)
	ok(t, w.pool.LoadPolicy(saved))
	again, err := w.pool.SavePolicy()
	ok(t, err)
	if !bytes.Equal(saved, again) {
		t.Fatal("what was loaded is not what was saved")
	}
	expect(t, w.pool.LoadPolicy(nil), ErrCorrupt)
	expect(t, w.pool.LoadPolicy(saved[:len(saved)-1]), ErrCorrupt)
	damaged := append([]byte(nil), saved...)
	damaged[40] ^= 1
	expect(t, w.pool.LoadPolicy(damaged), ErrCorrupt)
	damaged[12] ^= 2 // the version
	expect(t, w.pool.LoadPolicy(damaged), ErrNotSupported)
	a := w.buffer(1)
	lease, err := w.pool.Acquire(background, w.stream, DiscardWrite(a))
	ok(t, err)
	ok(t, lease.Release())
	expect(t, w.pool.LoadPolicy(saved), ErrInvalidArgument)
}

func TestAPolicyThatLearnsNothingIsNotSaved(t *testing.T) {
	w := newWorld(t, setup{devicePages: 4, hostPages: 64})
	_, err := w.pool.SavePolicy()
	expect(t, err, ErrNotSupported)
	expect(t, w.pool.LoadPolicy([]byte{1}), ErrNotSupported)
}
