// Package guides holds the code of docs/tuning.md and docs/testing.md.
package guides

import (
	"testing"

	"github.com/gobackoff/backoff/examples/internal/docblocks"
)

func TestTheGuidesShowCodeThatRuns(t *testing.T) {
	for _, document := range []string{"tuning.md", "testing.md"} {
		if err := docblocks.Check("../../docs/"+document, "."); err != nil {
			t.Error(err)
		}
	}
}
