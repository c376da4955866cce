// Package guides holds the code of docs/tuning.md and docs/testing.md. That of
// docs/oncall.md is in package oncall.
package guides

import (
	"testing"

	"github.com/gobackoff/backoff/examples/internal/docblocks"
)

func TestTheGuidesShowCodeThatRuns(t *testing.T) {
	for document, dir := range map[string]string{"tuning.md": ".", "testing.md": ".", "oncall.md": "../oncall"} {
		if err := docblocks.Check("../../docs/"+document, dir); err != nil {
			t.Error(err)
		}
	}
}
