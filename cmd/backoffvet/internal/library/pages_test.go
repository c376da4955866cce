package library

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis/analysistest"
)

// around has what the first example of each page needs around it. The page leaves out what does not
// matter; "..." stands for it.
var around = map[string]string{
	"bareposts": "func page(ctx context.Context, url string, charge func() io.Reader) error {\n%s\nreturn err\n}",
	"failfastjob": "func page(ctx context.Context, shop *guard.Service, orders <-chan int, " +
		"send func(context.Context, int) error) {\n%s\n}",
	"nilctxerr":  "func page(ctx context.Context) error {\n%s\n}",
	"nocheck":    "func page(ctx context.Context, client *http.Client, req *http.Request, order any) error {\n%s\nreturn err\n}",
	"outerctx":   "func page(ctx context.Context) error {\n%s\nreturn errors.Join(err, r.Err())\n}",
	"outsiderun": "func page(ctx context.Context) error {\n%s\n}",
	"percall":    "type Service struct{ query func(string) func(context.Context) error }\n\n%s",
	"wraperr":    "func page(ctx context.Context) error {\n%s\nreturn err\n}",
}

const prelude = `package pages

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
)

var (
	_ = json.Marshal
	_ = log.Print
	_ = io.EOF
	_ = http.Get
	_ = time.Now
	_ guard.Service

	policy  = backoff.Policy{Name: "page"}
	errBusy = errors.New("busy")
)

func fetch(ctx context.Context) error { return ctx.Err() }
func send(ctx context.Context) error  { return ctx.Err() }

`

func TestTheExamplesOfThePagesAreFound(t *testing.T) {
	var pages []string
	for name, frame := range around {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", name+".md"))
		require.NoError(t, err)
		_, block, _ := strings.Cut(string(text), "```go\n")
		block, _, _ = strings.Cut(block, "```")
		block = strings.ReplaceAll(block, "\t...\n", "")
		block = strings.ReplaceAll(block, "...\n", "")
		if name == "bareposts" {
			block = strings.Replace(block, "\tresp, err", "\t_, err", 1)
			block = strings.Replace(block, "\n})", "\n\treturn err\n})", 1)
		}
		dir := filepath.Join(gopath, "src", "pages"+name)
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.go"), []byte(prelude+fmt.Sprintf(frame, block)), 0o600))
		pages = append(pages, "pages"+name)
	}
	found := findings(t, pages)
	for name := range around {
		require.Contains(t, found["pages"+name], "("+name+")", name)
	}
}

// quiet takes the complaints of analysistest about findings that no comment wants.
type quiet struct{ *testing.T }

func (quiet) Errorf(string, ...any) {}

func findings(t *testing.T, pages []string) map[string]string {
	all := map[string]string{}
	for _, result := range analysistest.Run(quiet{t}, gopath, everything, pages...) {
		require.NoError(t, result.Err)
		for _, d := range result.Diagnostics {
			all[result.Pass.Pkg.Path()] += d.Message + "\n"
		}
	}
	return all
}
