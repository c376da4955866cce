package soak

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
)

// A reading is the memory, goroutines and descriptors that the process holds.
type reading struct {
	live       int64 // bytes of the heap that are in use after a collection
	spans      int64 // bytes of the heap that hold any of them
	goroutines int
	files      int // descriptors, on Linux
}

func read() reading {
	runtime.GC()
	runtime.GC() // what finalizers and pools let go of in the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return reading{int64(m.HeapAlloc), int64(m.HeapInuse), runtime.NumGoroutine(), files()}
}

// files counts file descriptors, where the system lists them.
func files() int {
	names, _ := os.ReadDir("/proc/self/fd")
	return len(names)
}

func (r reading) String() string {
	return fmt.Sprintf("heap %.2f MiB live, %.2f MiB in use; %d goroutines, %d descriptors",
		mib(r.live), mib(r.spans), r.goroutines, r.files)
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// A meter is a RoundTripper that counts attempts and open bodies.
type meter struct {
	*http.Transport
	attempts atomic.Int64
	opened   atomic.Int64 // bodies
	closed   atomic.Int64
}

func (m *meter) RoundTrip(req *http.Request) (*http.Response, error) {
	m.attempts.Add(1)
	resp, err := m.Transport.RoundTrip(req)
	if err == nil {
		m.opened.Add(1)
		resp.Body = &metered{ReadCloser: resp.Body, m: m}
	}
	return resp, err
}

// A metered is a body that counts its first Close.
type metered struct {
	io.ReadCloser
	m    *meter
	once sync.Once
}

func (b *metered) Close() error {
	b.once.Do(func() { b.m.closed.Add(1) })
	return b.ReadCloser.Close()
}
