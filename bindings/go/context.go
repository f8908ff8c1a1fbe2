// SPDX-License-Identifier: Apache-2.0

package weir

// Contexts: the backends that were found, the devices, the links between them. A context outlives its pools and streams:
// each of them counts as a user of it.

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"runtime/cgo"
	"sync"
	"time"
	"unsafe"
)

// LogLevel is how bad a line of the log is.
type LogLevel int32

const (
	LogError LogLevel = iota
	LogWarning
	LogInfo
	LogDebug
)

// ContextOptions are all optional.
type ContextOptions struct {
	// Options for backends and for the topology, as "host.devices=2;host.memory=1G". "" reads the environment variable
	// WEIR_OPTIONS.
	Options string
	// BackendPaths are backend libraries to load. nil: those of the search folder only.
	BackendPaths []string
	// NoHostBackend leaves out the built-in host backend, NoSearch the libraries of the search folder.
	NoHostBackend bool
	NoSearch      bool
	// Stacks keeps the call stack of each buffer and allocation, as far as it is C's, for reports and snapshots. WEIR_STACKS=1 in
	// the environment does the same.
	Stacks bool
	// Log gets each line of the log, on any goroutine, several at a time. It must not call this package.
	Log func(level LogLevel, text string)
	// Natives are objects of the program that backends are to use in place of their own: an engine's VkDevice.
	Natives []Native
	// StartTimeout is how long a backend's runtime may take to start; 0 is 60 s.
	StartTimeout time.Duration
}

// Native is what the program has of one backend's runtime already. Handles points to a struct of that backend's header (weir/vulkan.h) in
// memory of C; it is copied.
type Native struct {
	Backend string // "vulkan"
	Handles unsafe.Pointer
}

// Context is the root object: one for a program, as a rule.
type Context struct {
	object
	log        cgo.Handle
	lock       sync.Mutex
	hostAccess map[Device]bool
}

// NewContext loads the backends and finds the devices. options may be nil. That a backend can't start is no error:
// [Context.Backends] tells why.
func NewContext(options *ContextOptions) (*Context, error) {
	const op = "create context"
	if options == nil {
		options = &ContextOptions{}
	}
	if options.StartTimeout < 0 {
		return nil, refused(op, ErrInvalidArgument, "StartTimeout is %v", options.StartTimeout)
	}
	var texts cStrings
	defer texts.free()
	desc := C.weir_context_desc{
		struct_size:      C.sizeof_weir_context_desc,
		backend_paths:    texts.list(options.BackendPaths),
		options:          texts.add(options.Options),
		start_timeout_ns: C.uint64_t(options.StartTimeout),
	}
	if n := len(options.Natives); n > 0 {
		desc.natives, desc.native_count = texts.natives(options.Natives), C.uint32_t(n)
	}
	if options.NoHostBackend {
		desc.flags |= C.WEIR_CONTEXT_NO_HOST_BACKEND
	}
	if options.NoSearch {
		desc.flags |= C.WEIR_CONTEXT_NO_SEARCH
	}
	if options.Stacks {
		desc.flags |= C.WEIR_CONTEXT_STACKS
	}
	var log cgo.Handle
	if options.Log != nil {
		log = cgo.NewHandle(options.Log)
	}
	var handle C.uintptr_t
	if err := failed(op, C.weirgo_context_create(&desc, C.uintptr_t(log), &handle)); err != nil {
		if log != 0 {
			log.Delete()
		}
		return nil, err
	}
	c := &Context{log: log, hostAccess: map[Device]bool{DeviceHost: true}}
	open(c, &c.object, kindContext, uintptr(handle), (*Context).Close)
	return c, nil
}

// WrapContext makes a Context of a weir_context that another language of the program owns. It must live for as long as
// the Context is used; Close ends the Context only.
func WrapContext(handle unsafe.Pointer) (*Context, error) {
	if handle == nil {
		return nil, refused("wrap context", ErrInvalidHandle, "the handle is nil")
	}
	c := &Context{hostAccess: map[Device]bool{DeviceHost: true}}
	c.borrowed = true
	open(c, &c.object, kindContext, uintptr(handle), (*Context).Close)
	return c, nil
}

// Handle is the weir_context, for C and other languages. It is the Context's as before:
// runtime.KeepAlive belongs after C's last use of it.
func (c *Context) Handle() unsafe.Pointer { return foreign(c.handle) }

// Close ends the context. ErrBusy while it has pools or streams.
func (c *Context) Close() error {
	const op = "close context"
	return c.finish(op, func() error {
		if c.borrowed {
			return nil
		}
		err := failed(op, C.weirgo_context_destroy(C.uintptr_t(c.handle)))
		if err == nil && c.log != 0 {
			c.log.Delete()
		}
		return err
	})
}

// BackendInfo is what became of one backend.
type BackendInfo struct {
	Name        string // "host", "cuda", ...
	Available   bool
	Reason      string // why it is not available
	Version     string // of the runtime found
	Path        string // the library it came from, or "built-in"
	FirstDevice Device
	DeviceCount int
}

// Backends tells of all backends that were found, also of those that are not available.
func (c *Context) Backends() ([]BackendInfo, error) {
	const op = "backends"
	if err := c.enter(op); err != nil {
		return nil, err
	}
	defer c.leave()
	var count C.uint32_t
	if err := failed(op, C.weirgo_backend_count(C.uintptr_t(c.handle), &count)); err != nil {
		return nil, err
	}
	backends := make([]BackendInfo, count)
	for i := range backends {
		var info C.weir_backend_info
		if err := failed(op, C.weirgo_backend_info(C.uintptr_t(c.handle), C.uint32_t(i), &info)); err != nil {
			return nil, err
		}
		backends[i] = BackendInfo{
			Name: C.GoString(info.name), Available: info.available != 0, Reason: C.GoString(info.reason),
			Version: C.GoString(info.version), Path: C.GoString(info.path),
			FirstDevice: Device(info.first_device), DeviceCount: int(info.device_count),
		}
	}
	return backends, nil
}

// DeviceCount is how many devices there are: a [Device] is an index below it.
func (c *Context) DeviceCount() (int, error) {
	const op = "device count"
	if err := c.enter(op); err != nil {
		return 0, err
	}
	defer c.leave()
	var count C.uint32_t
	err := failed(op, C.weirgo_device_count(C.uintptr_t(c.handle), &count))
	return int(count), err
}

// FindDevice is the device that a text means: "gpu" is the GPU with the most free memory, "gpu:1" the second GPU, "cuda:0" the
// first of a backend, and a UUID or a PCI address that card. Of several with commas between the first that is there counts:
// "gpu,host" takes the host's memory only where there is no GPU. "" is the environment variable WEIR_DEVICE, or "gpu" where that
// is not set. The error lists what there is.
func (c *Context) FindDevice(wish string) (Device, error) {
	const op = "find device"
	if err := c.enter(op); err != nil {
		return 0, err
	}
	defer c.leave()
	text := C.CString(wish)
	defer C.free(unsafe.Pointer(text))
	var device C.uint32_t
	err := failed(op, C.weirgo_device_find(C.uintptr_t(c.handle), text, &device))
	return Device(device), err
}

// NativeMemory tells the runtime's own object behind an address that a lease gave: a VkBuffer and an offset. out points to a struct of the
// backend's header, which kind names, in memory of C with its size set. ErrNotSupported where addresses are what the runtime takes.
func (c *Context) NativeMemory(device Device, address uint64, kind uint32, out unsafe.Pointer) error {
	const op = "native memory"
	if err := c.enter(op); err != nil {
		return err
	}
	defer c.leave()
	return failed(op, C.weirgo_native_memory(C.uintptr_t(c.handle), C.uint32_t(device), C.uint64_t(address),
		C.uint32_t(kind), out))
}

// Capabilities are what a device can do; docs/backend-abi.md of the library has the meaning of each.
type Capabilities uint64

const (
	CapVMM               Capabilities = C.WEIR_CAP_VMM
	CapMultiMap          Capabilities = C.WEIR_CAP_MULTI_MAP
	CapMapMayBlockDevice Capabilities = C.WEIR_CAP_MAP_MAY_BLOCK_DEVICE
	CapStreamAnyThread   Capabilities = C.WEIR_CAP_STREAM_ANY_THREAD
	CapPeer              Capabilities = C.WEIR_CAP_PEER
	CapExportFD          Capabilities = C.WEIR_CAP_EXPORT_FD
	CapBatchCopy         Capabilities = C.WEIR_CAP_BATCH_COPY
	CapKernels           Capabilities = C.WEIR_CAP_KERNELS
	CapHostCall          Capabilities = C.WEIR_CAP_HOST_CALL
	CapHostAccess        Capabilities = C.WEIR_CAP_HOST_ACCESS
	CapMapAnyThread      Capabilities = C.WEIR_CAP_MAP_ANY_THREAD
	CapHostRegister      Capabilities = C.WEIR_CAP_HOST_REGISTER
	CapExportFabric      Capabilities = C.WEIR_CAP_EXPORT_FABRIC
	CapMapPart           Capabilities = C.WEIR_CAP_MAP_PART
	CapIntegrated        Capabilities = C.WEIR_CAP_INTEGRATED
	CapSharedRange       Capabilities = C.WEIR_CAP_SHARED_RANGE
	CapMapRun            Capabilities = C.WEIR_CAP_MAP_RUN
	CapAccessLater       Capabilities = C.WEIR_CAP_ACCESS_LATER
	CapTransferStream    Capabilities = C.WEIR_CAP_TRANSFER_STREAM
	CapNativeMemory      Capabilities = C.WEIR_CAP_NATIVE_MEMORY
)

// DeviceInfo is what a context knows of a device.
type DeviceInfo struct {
	Backend        int // index in Context.Backends
	Name           string
	Capabilities   Capabilities
	MemoryTotal    uint64
	MemoryFree     uint64 // at the time of the call
	Granule        uint64 // smallest physical unit, 0 without CapVMM
	NumaNode       int    // -1 if unknown
	PCIAddress     string
	UUID           [16]byte
	Parent         Device // what partitions of one card have in common
	Partition      int
	PartitionCount int
}

// Device tells about a device.
func (c *Context) Device(device Device) (DeviceInfo, error) {
	const op = "device info"
	if err := c.enter(op); err != nil {
		return DeviceInfo{}, err
	}
	defer c.leave()
	var info C.weir_device_info
	err := failed(op, C.weirgo_device_info(C.uintptr_t(c.handle), C.uint32_t(device), &info))
	if err != nil {
		return DeviceInfo{}, err
	}
	d := DeviceInfo{
		Backend: int(info.backend), Name: C.GoString(&info.name[0]),
		Capabilities: Capabilities(info.capabilities), MemoryTotal: uint64(info.memory_total),
		MemoryFree: uint64(info.memory_free), Granule: uint64(info.granule), NumaNode: int(int32(info.numa_node)),
		PCIAddress: C.GoString(&info.pci_address[0]), Parent: Device(info.parent), Partition: int(info.partition),
		PartitionCount: int(info.partition_count),
	}
	for i := range d.UUID {
		d.UUID[i] = byte(info.uuid[i])
	}
	return d, nil
}

// canReach tells whether the CPU may dereference addresses of the device. The caller has entered c.
func (c *Context) canReach(device Device) (bool, error) {
	if device == DeviceDefault {
		device = 0
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	reach, known := c.hostAccess[device]
	if !known {
		info, err := c.Device(device)
		if err != nil {
			return false, err
		}
		reach = info.Capabilities&CapHostAccess != 0
		c.hostAccess[device] = reach
	}
	return reach, nil
}

// canReachAll tells whether the CPU may dereference addresses of every device. The caller has entered c, or a stream of it.
func (c *Context) canReachAll() (bool, error) {
	count, err := c.DeviceCount()
	for device := 0; err == nil && device < count; device++ {
		var reach bool
		if reach, err = c.canReach(Device(device)); err == nil && !reach {
			return false, nil
		}
	}
	return err == nil, err
}

// LinkKind is what a link is made of.
type LinkKind uint32

const (
	LinkNone LinkKind = iota
	LinkSame
	LinkPCIe
	LinkNVLink
	LinkInfinityFabric
	LinkXe
	LinkMemory
	LinkC2C
	LinkNetwork
)

func (k LinkKind) String() string { return C.GoString(C.weir_link_kind_string(C.uint32_t(k))) }

// LinkFigure is where a link's bandwidth is from. The numbers are no order.
type LinkFigure uint32

const (
	LinkFigureNone LinkFigure = iota
	LinkFigurePCIe
	LinkFigureTopology
	LinkFigureBackend
	LinkFigureMeasured
)

func (f LinkFigure) String() string { return C.GoString(C.weir_link_figure_string(C.uint32_t(f))) }

// LinkInfo is the path between two places.
type LinkInfo struct {
	Kind              LinkKind
	Bandwidth         uint64 // bytes a second one way, 0 = unknown
	Latency           time.Duration
	Hops              int
	Direct            bool // copies need no host staging
	Source            LinkFigure
	ReportedSource    LinkFigure
	ReportedBandwidth uint64 // where nothing is measured
	SharedWith        int    // partitions of one card that have the link in common
}

// Link tells about the path between two places; either may be [DeviceHost].
func (c *Context) Link(from, to Device) (LinkInfo, error) {
	const op = "link info"
	if err := c.enter(op); err != nil {
		return LinkInfo{}, err
	}
	defer c.leave()
	var info C.weir_link_info
	err := failed(op, C.weirgo_link_info(C.uintptr_t(c.handle), C.uint32_t(from), C.uint32_t(to), &info))
	if err != nil {
		return LinkInfo{}, err
	}
	return LinkInfo{
		Kind: LinkKind(info.kind), Bandwidth: uint64(info.bandwidth), Latency: time.Duration(info.latency_ns),
		Hops: int(info.hops), Direct: info.direct != 0, Source: LinkFigure(info.source),
		ReportedSource: LinkFigure(info.reported_source), ReportedBandwidth: uint64(info.reported_bandwidth),
		SharedWith: int(info.shared_with),
	}, nil
}

// TopologyFormat is what [Context.ExportTopology] writes.
type TopologyFormat uint32

const (
	TopologyJSON TopologyFormat = iota
	TopologyText
	TopologySVG
)

// ExportTopology writes the machine with the context's devices in it.
func (c *Context) ExportTopology(format TopologyFormat) (string, error) {
	const op = "export topology"
	if err := c.enter(op); err != nil {
		return "", err
	}
	defer c.leave()
	var text *C.char
	var length C.size_t
	if err := failed(op, C.weirgo_topology_export(C.uintptr_t(c.handle), C.uint32_t(format), &text, &length)); err != nil {
		return "", err
	}
	defer C.free(unsafe.Pointer(text))
	return C.GoStringN(text, C.int(length)), nil
}

// CalibrateOptions bound a calibration.
type CalibrateOptions struct {
	NoCache  bool          // measure for this context only
	MaxTime  time.Duration // for all links together; 0 = 5 s
	MaxBytes uint64        // of memory held at once; 0 = 64 MiB
}

// CalibrateReport is what became of the links; each way of a link counts as one.
type CalibrateReport struct {
	Measured, Failed, Skipped int
	Saved                     int // files written to the cache
	Elapsed                   time.Duration
	Folder                    string // of the cache
}

// Calibrate measures bandwidth and latency of every link. It can't be interrupted: MaxTime, and ctx's deadline if that is
// sooner, bound it. The report is written on ErrIO too.
func (c *Context) Calibrate(ctx context.Context, options CalibrateOptions) (CalibrateReport, error) {
	const op = "calibrate"
	if ctx.Err() != nil {
		return CalibrateReport{}, ended(op, ctx)
	}
	if options.MaxTime < 0 {
		return CalibrateReport{}, refused(op, ErrInvalidArgument, "MaxTime is %v", options.MaxTime)
	}
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		if left <= 0 {
			left = 1
		}
		if options.MaxTime == 0 && left < 5*time.Second || left < options.MaxTime {
			options.MaxTime = left
		}
	}
	if err := c.enter(op); err != nil {
		return CalibrateReport{}, err
	}
	defer c.leave()
	desc := C.weir_calibrate_desc{struct_size: C.sizeof_weir_calibrate_desc, max_ns: C.uint64_t(options.MaxTime),
		max_bytes: C.uint64_t(options.MaxBytes)}
	if options.NoCache {
		desc.flags = C.WEIR_CALIBRATE_NO_CACHE
	}
	var report C.weir_calibrate_report
	err := failed(op, C.weirgo_calibrate(C.uintptr_t(c.handle), &desc, &report))
	return CalibrateReport{
		Measured: int(report.measured), Failed: int(report.failed), Skipped: int(report.skipped),
		Saved: int(report.saved), Elapsed: time.Duration(report.elapsed_ns), Folder: C.GoString(report.folder),
	}, err
}
