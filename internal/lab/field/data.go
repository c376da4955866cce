package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"time"
)

// A run is what was measured of one client at one load.
type run struct {
	Client               string
	Setup                setup
	Date, Machine        string
	FleetCPU, ServiceCPU float64 // processors, on average
	Fleet                fleetCounts
	Service              serviceCounts
}

// compare orders runs as the page shows them.
func compare(a, b *run) int {
	row := func(r *run) int { return slices.IndexFunc(clients, func(c client) bool { return c.name == r.Client }) }
	return cmp.Or(cmp.Compare(a.Setup.Load, b.Setup.Load), cmp.Compare(row(a), row(b)))
}

// add puts a run in the place of an older one of the same client and setup.
func add(runs []*run, r *run) []*run {
	i, found := slices.BinarySearchFunc(runs, r, compare)
	if found {
		runs[i] = r
		return runs
	}
	return slices.Insert(runs, i, r)
}

// load reads the runs that are kept in a file, if it exists.
func load(file string) ([]*run, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var runs []*run
	return runs, json.Unmarshal(text, &runs)
}

// keep writes the runs to a file, each on a line of its own.
func keep(file string, runs []*run) error {
	var b bytes.Buffer
	for i, r := range runs {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		b.WriteString([]string{"[\n", ",\n"}[min(i, 1)])
		b.Write(line)
	}
	b.WriteString("\n]\n")
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o666)
}

var processorName = regexp.MustCompile(`(?m)^model name\s*: (.*)$`)

// machine describes the machine, as far as it is known.
func machine() string {
	processor := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if m := processorName.FindSubmatch(text); m != nil {
			processor = string(m[1])
		}
	}
	return fmt.Sprintf("%d processors of %s, %s/%s, %s", runtime.NumCPU(), processor, runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// seconds converts a duration to whole seconds.
func seconds(d time.Duration) int { return int(d / time.Second) }
