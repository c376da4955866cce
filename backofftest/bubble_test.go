package backofftest_test

import (
	"context"
	"errors"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

func TestSaveIsTriedUntilItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := 2
		policy := backoff.Policy{Jitter: backoff.NoJitter}
		began := time.Now()
		err := policy.Do(t.Context(), func(context.Context) error {
			if failures--; failures >= 0 {
				return errors.New("down")
			}
			return nil
		})
		if took := time.Since(began); err != nil || took != 300*time.Millisecond {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// The test above is the one that the documentation of the package shows.
func TestTheTestInTheDocumentationIsOneThatRuns(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	require.NoError(t, err)
	var shown strings.Builder
	for line := range strings.Lines(file.Doc.Text()) {
		if code, ok := strings.CutPrefix(line, "\t"); ok {
			shown.WriteString(code)
		}
	}
	source, err := os.ReadFile("bubble_test.go")
	require.NoError(t, err)
	require.Contains(t, string(source), shown.String())
	require.NotEmpty(t, shown.String())
}
