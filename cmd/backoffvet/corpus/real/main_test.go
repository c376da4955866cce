// Package real fetches the programs of modules.tsv, runs backoffvet over each, and prints what it
// finds beside the verdict of verdicts.tsv:
//
//	go test ./corpus/real -run RealPrograms -v -timeout 3h -corpus
//	go test ./corpus/real -run RealPrograms -v -corpus -only dskit
//
// It needs the module proxy, an hour the first time, and 30 GB for what it downloads and builds.
package real

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	only  = flag.String("only", "", "run the modules that match this `expression`")
	fetch = flag.Bool("corpus", false, "fetch the programs and look for bugs in them")
	work  = flag.String("work", filepath.Join(os.TempDir(), "backoffvet-corpus"), "keep copies of the modules in this `folder`")
)

func TestRealProgramsAreFetchedAndJudged(t *testing.T) {
	if !*fetch {
		return
	}
	modules, err := readModules("modules.tsv", regexp.MustCompile(*only))
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(*work, 0o755))
	require.NoError(t, each(modules, func(m module) error { return m.judge(verdicts(t)) }))
}

func each(modules []module, look func(module) error) error {
	for _, m := range modules {
		if err := m.prepare(); err != nil {
			return fmt.Errorf("%s: %w", m, err)
		}
		if err := look(m); err != nil {
			return fmt.Errorf("%s: %w", m, err)
		}
	}
	return nil
}
