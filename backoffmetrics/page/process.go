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
	Program  string `json:"program"`
	Host     string `json:"host,omitempty"`
	PID      int    `json:"pid"`
	Module   string `json:"module,omitempty"`
	Version  string `json:"version,omitempty"`
	Revision string `json:"revision,omitempty"` // of the version control
	Go       string `json:"go"`
	Started  int64  `json:"started"` // in ms of the Unix time
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
		p.addBuild(info)
	}
	return p
})

// addBuild adds the module, the version and the revision.
func (p *process) addBuild(info *debug.BuildInfo) {
	const short = 12 // digits of a revision
	p.Module, p.Version = info.Main.Path, info.Main.Version
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			p.Revision = s.Value[:min(short, len(s.Value))] + p.Revision
		case s.Key == "vcs.modified" && s.Value == "true":
			p.Revision += ", modified"
		}
	}
}
