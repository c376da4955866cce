package page

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/gobackoff/backoff/internal/clock"
)

// process describes the process that serves the page. It has neither arguments nor the
// environment, where secrets are.
type process struct {
	Program string `json:"program"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid"`
	Version string `json:"version,omitempty"` // of the main module, with the revision
	Go      string `json:"go"`
	Started int64  `json:"started"` // in ms of the Unix time
}

// started is when the packages were initialized.
var started = clock.Now()

// thisProcess describes this process.
var thisProcess = sync.OnceValue(func() process {
	p := process{PID: os.Getpid(), Go: runtime.Version(), Started: started.UnixMilli()}
	if path, err := os.Executable(); err == nil {
		p.Program = filepath.Base(path)
	}
	p.Host, _ = os.Hostname()
	if info, ok := debug.ReadBuildInfo(); ok {
		p.Version = info.Main.Version
	}
	return p
})
